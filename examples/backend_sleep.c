/* SPDX-License-Identifier: MIT */
/* The sleeping backend: two callbacks that wait until a deadline and write down when.
 * A sleep ends shortly after its deadline and never before, so that runs can be held against theory. */
#include "backend_sleep.h"

#include <stdlib.h>
#include <uv.h>

#ifdef __linux__
#include <errno.h>
#include <sys/prctl.h>
#include <time.h>
#endif

/* Sleeping threads wake late: by the 50 us of slack that Linux grants itself, which can be switched off, and
 * by some 50 to 100 us more that a processor takes to come out of idle, which can not. So each thread learns
 * how late it wakes, ends its sleeps that much and a little more before the deadline, and spends what is left
 * watching the clock. */
#define SPARE_NS UINT64_C(20000)         /* the little more */
#define LATE_AT_FIRST_NS UINT64_C(80000) /* before anything was learned */
#define LATE_AT_MOST_NS UINT64_C(200000) /* so that one mishap is not taken for the rule */

static _Thread_local uint64_t usually_late_ns = LATE_AT_FIRST_NS;

#define NS_PER_S UINT64_C(1000000000)

#ifdef __linux__

/* The slack belongs to the thread, and a pool's threads live on, so once a thread is enough.
 * A refusal costs precision and nothing else, so it is not an error. */
static void drop_timer_slack(void) {
  static _Thread_local int dropped;
  if (!dropped) {
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    dropped = 1;
  }
}

/* An absolute time, so that being interrupted between looking and sleeping does not make it later.
 * Whatever else than a signal ends it early, the caller's look at the clock makes up for. */
static void sleep_until(uint64_t when_ns) {
  struct timespec when;
  when.tv_sec = (time_t)(when_ns / NS_PER_S);
  when.tv_nsec = (long)(when_ns % NS_PER_S);
  drop_timer_slack();
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
    continue;
}

#else

/* Portable, and as precise as whole milliseconds are. */
static void sleep_until(uint64_t when_ns) {
  uint64_t now_ns = uv_hrtime();
  if (when_ns > now_ns)
    uv_sleep((unsigned)((when_ns - now_ns) / UINT64_C(1000000)));
}

#endif

/* A running mean over some eight sleeps. */
static void learn(uint64_t asked_ns, uint64_t woke_ns) {
  uint64_t late_ns = woke_ns > asked_ns ? woke_ns - asked_ns : 0;
  if (late_ns > LATE_AT_MOST_NS)
    late_ns = LATE_AT_MOST_NS;
  usually_late_ns = (7 * usually_late_ns + late_ns) / 8;
}

/* Returns the time at which it saw that `deadline_ns` has passed. */
static uint64_t wait_until(uint64_t deadline_ns) {
  uint64_t asked_ns = deadline_ns - usually_late_ns - SPARE_NS;
  uint64_t now_ns = uv_hrtime();
  if (asked_ns > now_ns && asked_ns < deadline_ns) {
    sleep_until(asked_ns);
    now_ns = uv_hrtime();
    learn(asked_ns, now_ns);
  }
  while (now_ns < deadline_ns)
    now_ns = uv_hrtime();
  return now_ns;
}

/* Step 3: the callbacks. Each finds the backend in op->data and its own record by op->microbatch (step 2),
 * which no other op touches: compute and comm of one microbatch never run at the same time. */
static int sleep_compute(ovl_op_t *op) {
  backend_sleep_t *backend = op->data;
  if (op->microbatch >= backend->microbatches)
    return OVL_EINVAL;
  backend_sleep_record_t *record = &backend->records[op->microbatch];
  record->compute_start_ns = uv_hrtime();
  record->compute_end_ns = wait_until(record->compute_start_ns + backend->compute_ns);
  record->computes++;
  return 0;
}

static int sleep_comm(ovl_op_t *op) {
  backend_sleep_t *backend = op->data;
  if (op->microbatch >= backend->microbatches)
    return OVL_EINVAL;
  backend_sleep_record_t *record = &backend->records[op->microbatch];
  record->comm_start_ns = uv_hrtime();
  record->comm_end_ns = wait_until(record->comm_start_ns + backend->comm_ns);
  record->comms++;
  return 0;
}

/* Step 4: the one function that a program calls to use the backend. */
void backend_sleep_use(backend_sleep_t *backend, ovl_pipeline_options_t *options) {
  options->compute = sleep_compute;
  options->comm = sleep_comm;
  options->data = backend; /* becomes op->data of both stages */
  options->spin_ns = 1;    /* what sleeps leaves the processor idle, so waiting for it had better, too */
}

/* The pipeline has two stages: compute, then comm. */
static int is_compute(const ovl_op_t *op) { return op->stage.id == 1; }

static uint64_t duration_of(const ovl_op_t *op, void *data) {
  const backend_sleep_t *backend = data;
  return is_compute(op) ? backend->compute_ns : backend->comm_ns;
}

static void record_op(const ovl_op_t *op, uint64_t start_ns, uint64_t end_ns, void *data) {
  const backend_sleep_t *backend = data;
  if (op->microbatch >= backend->microbatches)
    return;
  backend_sleep_record_t *record = &backend->records[op->microbatch];
  *(is_compute(op) ? &record->compute_start_ns : &record->comm_start_ns) = start_ns;
  *(is_compute(op) ? &record->compute_end_ns : &record->comm_end_ns) = end_ns;
  ++*(is_compute(op) ? &record->computes : &record->comms);
}

void backend_sleep_simulate(backend_sleep_t *backend, ovl_simulation_t *simulation) {
  ovl_simulation_init(simulation);
  simulation->duration = duration_of;
  simulation->on_op = record_op;
  simulation->data = backend;
}

static backend_sleep_record_t *new_records(uint64_t count) {
  if (count > SIZE_MAX / sizeof(backend_sleep_record_t))
    return NULL;
  return calloc(count == 0 ? 1 : (size_t)count, sizeof(backend_sleep_record_t));
}

/* Step 5: a pair of init and finish. */
int backend_sleep_init(backend_sleep_t *backend, uint64_t microbatches, uint64_t compute_ns,
                       uint64_t comm_ns) {
  backend->compute_ns = compute_ns;
  backend->comm_ns = comm_ns;
  backend->microbatches = microbatches;
  backend->records = new_records(microbatches);
  return backend->records == NULL ? OVL_ENOMEM : 0;
}

void backend_sleep_finish(backend_sleep_t *backend) {
  free(backend->records);
  backend->records = NULL;
}

int backend_sleep_take_records(backend_sleep_t *backend, backend_sleep_record_t **records) {
  backend_sleep_record_t *fresh = new_records(backend->microbatches);
  if (fresh == NULL)
    return OVL_ENOMEM;
  *records = backend->records;
  backend->records = fresh;
  return 0;
}
