/* SPDX-License-Identifier: MIT */
/* Clocks: a time, and for each stream how many of its works have been seen. */
#include "support/paper_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* runs use a paper from several threads */

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

static void mix(paper_t *paper, uint64_t number) {
  paper->shape = (paper->shape ^ number) * UINT64_C(0x100000001b3) + 1;
}

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint32_t index_of(const paper_t *paper, const paper_stream_t *stream) {
  return (uint32_t)(stream - paper->streams);
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

static _Thread_local int current = -1; /* the device that this thread has entered last */

static int enter(void *context) {
  const struct paper_half *half = context;
  current = half->device;
  return 0;
}

static int event_create(void *context, int timing, void **event) {
  struct paper_half *half = context;
  assert_int_equal(current, half->device);
  if (half->paper->events_left > 0 && --half->paper->events_left == 0)
    return 2;
  assert_true(half->paper->events_made < PAPER_EVENTS);
  paper_event_t *made = &half->paper->events[half->paper->events_made++];
  *made = (paper_event_t){.device = half->device, .captured = -1, .timing = timing};
  half->paper->timing_events += timing != 0;
  *event = made;
  return 0;
}

static void event_destroy(void *context, void *event) {
  struct paper_half *half = context;
  assert_int_equal(((paper_event_t *)event)->device, half->device);
  half->paper->events_ended++;
}

static int injected(paper_t *paper) {
  if (paper->fail_after == 0) {
    paper->fail_after -= paper->fail_once != 0;
    return paper->fail_with;
  }
  paper->fail_after -= paper->fail_after > 0;
  return 0;
}

/* With the lock. Not 0: this call fails, and does nothing. */
static int note_call(paper_t *paper, uint64_t *count, uint64_t kind, const void *stream) {
  ++*count;
  int r = injected(paper);
  if (r == 0 && !paper->blind)
    mix(paper, kind + index_of(paper, stream));
  return r;
}

static void record_on(paper_t *paper, const struct paper_half *half, paper_event_t *mark,
                      const paper_stream_t *on) {
  assert_int_equal(current, half->device);      /* another device must not be current */
  assert_int_equal(mark->device, half->device); /* CUDA: an event is recorded in its own context */
  assert_int_equal(on->device, half->device);
  assert_true(mark->captured == -1 || mark->captured == paper->capturing); /* the two kinds are not mixed */
  mark->captured = paper->capturing;
  mark->now = on->now;
  memcpy(mark->seen, on->seen, sizeof mark->seen);
  mark->queries = 0;
}

static int event_record(void *context, void *event, void *stream) {
  const struct paper_half *half = context;
  lock();
  int r = note_call(half->paper, &half->paper->records, 1000, stream);
  if (r == 0 && !half->paper->blind)
    record_on(half->paper, half, event, stream);
  unlock();
  return r;
}

static void wait_on(const paper_t *paper, const struct paper_half *half, const paper_event_t *mark,
                    paper_stream_t *on) {
  assert_int_equal(on->device, half->device);
  assert_int_equal(current, half->device);
  assert_int_equal(mark->captured, paper->capturing); /* recorded, and of this kind */
  assert_true(mark->device == half->device ||
              (paper->devices[0].sync_domain != NULL &&
               paper->devices[0].sync_domain == paper->devices[1].sync_domain));
  on->now = most(on->now, mark->now);
  for (uint32_t s = 0; s < PAPER_STREAMS; s++)
    on->seen[s] = on->seen[s] > mark->seen[s] ? on->seen[s] : mark->seen[s];
}

static int stream_wait(void *context, void *stream, void *event) {
  const struct paper_half *half = context;
  lock();
  int r = note_call(half->paper, &half->paper->waits, 2000, stream);
  if (r == 0 && !half->paper->blind)
    wait_on(half->paper, half, event, stream);
  unlock();
  return r;
}

static int event_query(void *context, void *event) {
  const struct paper_half *half = context;
  paper_t *paper = half->paper;
  paper_event_t *mark = event;
  lock();
  assert_int_equal(mark->device, half->device);
  int done = mark->queries++ >= paper->patience && atomic_load(&paper->hold) == 0;
  for (uint32_t s = 0; done && s < PAPER_STREAMS; s++)
    paper->known[s] = paper->known[s] > mark->seen[s] ? paper->known[s] : mark->seen[s];
  int r = done ? paper->query_error : OVL_PENDING;
  unlock();
  return r;
}

static int elapsed(void *context, void *start, void *end, uint64_t *ns) {
  const struct paper_half *half = context;
  const paper_event_t *a = start, *b = end;
  lock();
  assert_int_equal(current, half->device);
  assert_true(a->timing && b->timing && a->captured == 0 && b->captured == 0);
  for (uint32_t s = 0; s < PAPER_STREAMS; s++)
    assert_true(half->paper->known[s] >= b->seen[s]);
  *ns = b->now > a->now ? b->now - a->now : 0;
  unlock();
  return half->paper->elapsed_error;
}

static int is_capturing(void *context, void *stream, int *capturing) {
  const struct paper_half *half = context;
  (void)stream;
  *capturing = half->paper->capturing;
  return half->paper->invalid ? 901 : 0;
}

void paper_init(paper_t *paper) {
  memset(paper, 0, sizeof *paper);
  current = -1;
  paper->fail_after = -1;
  paper->events_left = -1;
  for (int d = 0; d < 2; d++) {
    ovl_device_t *device = &paper->devices[d];
    paper->halves[d] = (struct paper_half){.paper = paper, .device = d};
    ovl_device_init(device);
    device->name = d == 0 ? "paper:0" : "paper:1";
    device->context = &paper->halves[d];
    device->sync_domain = paper;
    device->enter = enter;
    device->event_create = event_create;
    device->event_destroy = event_destroy;
    device->event_record = event_record;
    device->stream_wait = stream_wait;
    device->event_query = event_query;
    device->is_capturing = is_capturing;
    device->elapsed = elapsed;
  }
}

paper_t *paper_make(void) {
  paper_t *paper = malloc(sizeof *paper);
  assert_non_null(paper);
  paper_init(paper);
  return paper;
}

void paper_free(paper_t *paper) {
  assert_int_equal(paper->events_made, paper->events_ended);
  free(paper);
}

void *paper_stream(paper_t *paper, int device) {
  assert_true(paper->stream_count < PAPER_STREAMS);
  paper_stream_t *stream = &paper->streams[paper->stream_count++];
  stream->paper = paper;
  stream->device = device;
  return stream;
}

/* ---- works ------------------------------------------------------------------------------------------------------- */

void paper_put(const ovl_op_t *op, uint64_t duration) {
  paper_stream_t *on = op->stream;
  paper_t *paper = on->paper;
  uint32_t stream = index_of(paper, on);
  lock();
  assert_int_equal(current, on->device);
  assert_true(paper->work_count < PAPER_WORKS);
  paper_work_t *work = &paper->works[paper->work_count++];
  *work = (paper_work_t){.stream = stream,
                         .position = on->seen[stream] + 1,
                         .stage = op->stage.id,
                         .microbatch = op->microbatch,
                         .slot = op->slot,
                         .start = on->now,
                         .end = on->now + duration};
  memcpy(work->seen, on->seen, sizeof work->seen);
  on->now = work->end;
  on->seen[stream] = work->position;
  mix(paper, 3000 + stream);
  mix(paper, op->microbatch * 1000 + op->stage.id);
  unlock();
}

const paper_work_t *paper_find(const paper_t *paper, uint32_t from, uint32_t stage, uint64_t microbatch) {
  const paper_work_t *found = NULL;
  for (uint32_t i = from; i < paper->work_count; i++)
    if (paper->works[i].stage == stage && paper->works[i].microbatch == microbatch) {
      assert_null(found);
      found = &paper->works[i];
    }
  assert_non_null(found);
  return found;
}

int paper_is_known(const paper_t *paper, uint32_t stage, uint64_t microbatch) {
  lock();
  const paper_work_t *work = paper_find(paper, 0, stage, microbatch);
  int known = paper->known[work->stream] >= work->position;
  unlock();
  return known;
}

int paper_after(const paper_work_t *later, const paper_work_t *earlier) {
  return later->seen[earlier->stream] >= earlier->position;
}

void paper_assert_all_after(const paper_t *paper, uint32_t from) {
  for (uint32_t i = from; i < paper->work_count; i++)
    for (uint32_t j = 0; j < from; j++)
      assert_true(paper_after(&paper->works[i], &paper->works[j]));
}

int paper_joined(const paper_t *paper, const void *stream) {
  const paper_stream_t *on = stream;
  for (uint32_t s = 0; s < paper->stream_count; s++)
    if (on->seen[s] != paper->streams[s].seen[s])
      return 0;
  return 1;
}

uint64_t paper_end(const paper_t *paper, uint32_t from) {
  uint64_t end = 0;
  for (uint32_t i = from; i < paper->work_count; i++)
    end = most(end, paper->works[i].end);
  return end;
}
