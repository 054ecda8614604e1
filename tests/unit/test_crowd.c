/* SPDX-License-Identifier: MIT */
/* Shows when no more runners are wanted than there are processors, which is while ops compute and are brief, and that one
 * stands by then: ops that wait for each other all of a sudden still find a thread each. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "api/pipeline.h"
#include "support/describe.h"
#include "support/nap.h"
#include "support/watchdog.h"

#define US UINT64_C(1000)

/* ---- the rule ---- */

static ovl_crowd_t crowd_that(unsigned computed) {
  ovl_crowd_t crowd;
  ovl_crowd_init(&crowd);
  crowd.processors = 3;
  for (unsigned i = 0; i < computed; i++)
    ovl_crowd_note(&crowd, 5 * US, 7, 7);
  return crowd;
}

static void who_computes_needs_a_processor_each(void **state) {
  (void)state;
  ovl_crowd_t crowd = crowd_that(8);
  assert_true(ovl_crowd_is_full(&crowd, 3, 0));
  assert_true(ovl_crowd_is_full(&crowd, 4, 0));
  assert_false(ovl_crowd_is_full(&crowd, 2, 0));
  crowd = crowd_that(7);
  assert_false(ovl_crowd_is_full(&crowd, 4, 0)); /* so few say nothing */
}

static void who_waits_does_not(void **state) {
  (void)state;
  const struct {
    uint64_t took, before, after;
  } waits[] = {{5 * US, 7, 8}, {2000 * US, 7, 7}, {5 * US, 0, 0}}; /* it waited, took long, or nobody knows */
  for (size_t i = 0; i < 3; i++) {
    ovl_crowd_t crowd = crowd_that(20);
    ovl_crowd_note(&crowd, waits[i].took, waits[i].before, waits[i].after);
    assert_false(ovl_crowd_is_full(&crowd, 9, 0));
    for (unsigned k = 0; k < 8; k++)
      ovl_crowd_note(&crowd, 5 * US, 7, 7);
    assert_true(ovl_crowd_is_full(&crowd, 9, 0)); /* computes again */
  }
}

static void it_is_lifted_for_a_while(void **state) {
  (void)state;
  ovl_crowd_t crowd = crowd_that(8);
  ovl_crowd_lift(&crowd, 1000);
  assert_false(ovl_crowd_is_full(&crowd, 9, 1001));
  assert_true(ovl_crowd_is_full(&crowd, 9, 1000 + 200000 * US));
}

/* Spans in which ops took so long, and came so long after one another. */
static uint64_t time_now;

static void let_pass(ovl_crowd_t *crowd, unsigned spans, uint64_t took, uint64_t gap) {
  for (unsigned ended = 0; ended < spans;) {
    uint64_t since = crowd->since;
    time_now += gap;
    ovl_crowd_count(crowd, took, time_now);
    ended += since != 0 && crowd->since != since;
  }
}

static ovl_crowd_t crowd_at_work(void) {
  time_now = 1000 * US;
  return crowd_that(8);
}

static bool one_is_enough(const ovl_crowd_t *crowd) { return ovl_crowd_is_full(crowd, 1, 0); }

/* In turns, less and less often, and kept if it is better. */
static void one_alone_is_tried_and_kept_if_better(void **state) {
  (void)state;
  ovl_crowd_t crowd = crowd_at_work();
  let_pass(&crowd, 15, 300, 400);
  assert_false(one_is_enough(&crowd));
  let_pass(&crowd, 1, 300, 400);
  assert_true(one_is_enough(&crowd));
  let_pass(&crowd, 1, 300, 500); /* others are still on their way out */
  assert_true(one_is_enough(&crowd));
  let_pass(&crowd, 1, 250, 390); /* not worth it */
  assert_false(one_is_enough(&crowd));
  let_pass(&crowd, 31, 300, 400);
  assert_false(one_is_enough(&crowd));
  let_pass(&crowd, 1, 300, 400);
  assert_true(one_is_enough(&crowd));
  let_pass(&crowd, 4 + 15, 250, 310); /* kept */
  assert_true(one_is_enough(&crowd));
  let_pass(&crowd, 1, 250, 310);
  assert_false(one_is_enough(&crowd)); /* the others are tried again */
  let_pass(&crowd, 5, 250, 300);
  assert_false(one_is_enough(&crowd));
  let_pass(&crowd, 1, 250, 300);
  assert_true(one_is_enough(&crowd)); /* and bring no more */
  let_pass(&crowd, 32, 250, 310);
  let_pass(&crowd, 3, 250, 200);
  assert_false(one_is_enough(&crowd)); /* now they do */
  let_pass(&crowd, 15, 250, 310);
  assert_false(one_is_enough(&crowd));
}

/* Of three spans each has to be better. */
static void one_alone_is_not_kept_for_a_lucky_span(void **state) {
  (void)state;
  for (unsigned lucky = 0; lucky < 3; lucky++) {
    ovl_crowd_t crowd = crowd_at_work();
    let_pass(&crowd, 16 + 1, 300, 400);
    let_pass(&crowd, lucky, 250, 310);
    assert_true(one_is_enough(&crowd));
    let_pass(&crowd, 1, 250, 390);
    assert_false(one_is_enough(&crowd));
  }
}

/* Who was called comes late, or is disturbed: one good span of four is enough. */
static void others_have_time_to_show_what_they_bring(void **state) {
  (void)state;
  for (unsigned bad = 0; bad < 4; bad++) {
    ovl_crowd_t crowd = crowd_at_work();
    let_pass(&crowd, 16, 300, 400);
    let_pass(&crowd, 4 + 16, 250, 310);
    assert_false(one_is_enough(&crowd)); /* a trial of the others, */
    let_pass(&crowd, 2 + bad, 250, 9000);
    assert_false(one_is_enough(&crowd));
    let_pass(&crowd, 1 + 10, 250, 200); /* who are kept */
    assert_false(one_is_enough(&crowd));
  }
}

/* It is for ops that take too long for one to do as many in the time, and where one comes soon after another. */
static void one_alone_is_not_tried_for_nothing(void **state) {
  (void)state;
  ovl_crowd_t crowd = crowd_at_work();
  for (unsigned s = 0; s < 3000; s++) {
    let_pass(&crowd, 1, 5000, 2600);
    assert_false(one_is_enough(&crowd));
  }
}

static void ops_that_become_longer_bring_the_others_back(void **state) {
  (void)state;
  ovl_crowd_t crowd = crowd_at_work();
  let_pass(&crowd, 16, 300, 400);
  let_pass(&crowd, 4 + 5, 250, 310);
  assert_true(one_is_enough(&crowd));
  let_pass(&crowd, 11, 1500, 1600); /* others than usual: a trial */
  assert_false(one_is_enough(&crowd));
  let_pass(&crowd, 3, 1500, 900);
  assert_false(one_is_enough(&crowd));
}

/* A thread may have been put aside in them. */
static void few_spans_say_little(void **state) {
  (void)state;
  ovl_crowd_t crowd = crowd_at_work();
  let_pass(&crowd, 13, 300, 400);
  let_pass(&crowd, 3, 300, 2000);
  assert_true(one_is_enough(&crowd)); /* it was time for a trial, */
  let_pass(&crowd, 2, 250, 600);
  assert_false(one_is_enough(&crowd)); /* and it is held against what is usual */
  let_pass(&crowd, 20, 300, 400);
  let_pass(&crowd, 3, 300, 2000);
  assert_false(one_is_enough(&crowd)); /* no others than they were */
  let_pass(&crowd, 1, 300, 2000);
  assert_true(one_is_enough(&crowd)); /* they are */
}

/* Ops are told of late now and then. */
static void an_op_may_be_told_of_late(void **state) {
  (void)state;
  ovl_crowd_t crowd = crowd_at_work();
  let_pass(&crowd, 15, 300, 400);
  for (unsigned i = 0; i < 100; i++)
    ovl_crowd_count(&crowd, 300, crowd.since - 10);
  assert_int_equal(crowd.spans, 15);
  assert_int_equal(crowd.lately_ns[0], 400);
}

static void a_trial_ends_with_its_run(void **state) {
  (void)state;
  ovl_crowd_t crowd = crowd_at_work();
  let_pass(&crowd, 16, 300, 400);
  assert_true(one_is_enough(&crowd));
  ovl_crowd_begin(&crowd);
  assert_false(one_is_enough(&crowd));
  let_pass(&crowd, 16, 300, 400);
  let_pass(&crowd, 4, 250, 310);
  ovl_crowd_begin(&crowd);
  assert_true(one_is_enough(&crowd)); /* what was learned stays */
}

static void a_thread_that_slept_has_waited(void **state) {
  (void)state;
  uint64_t before = ovl_crowd_waits();
  if (before == 0)
    return; /* the system does not say */
  nap_for(1000 * US, 1000 * US);
  assert_true(ovl_crowd_waits() > before);
}

/* ---- and when it does not hold any more ---- */

enum { MOST_MICROBATCHES = 4000000 };

static unsigned lanes;
static atomic_ullong meet_in; /* the microbatch in which all lanes wait for each other; 0: not yet */
static atomic_uint arrived, together;

static bool somebody_stands_by(ovl_executor_t *x) {
  ovl_exec_lock(x);
  bool stands_by = x->crew.crowd.stands_by;
  ovl_exec_unlock(x);
  return stands_by;
}

static void compute(uint64_t ns) {
  uint64_t end = uv_hrtime() + ns;
  while (uv_hrtime() < end)
    ;
}

static void meet(ovl_pipeline_t *p) {
  atomic_fetch_add(&arrived, 1);
  while (atomic_load(&arrived) < lanes)
    nap_for(100 * US, 100 * US);
  if (atomic_fetch_add(&together, 1) + 1 == lanes)
    assert_int_equal(ovl_pipeline_cancel(p), 0);
}

static int compute_and_meet(ovl_op_t *op) {
  unsigned long long in = atomic_load(&meet_in), none = 0;
  compute(5 * US);
  if (in == 0 && op->microbatch % 64 == 0 && somebody_stands_by(&op->pipeline->exec))
    atomic_compare_exchange_strong(&meet_in, &none, op->microbatch + 2 * ovl_pipeline_window(op->pipeline));
  else if (in != 0 && op->microbatch == in)
    meet(op->pipeline);
  return 0;
}

/* On lanes that compute, more than there are processors: none is left without a thread when each waits for all others. */
static void ops_that_wait_for_each_other_find_threads(void **state) {
  (void)state;
  ovl_pipeline_options_t options = pipeline_options(4);
  ovl_pipeline_t *p = make_pipeline(&options);
  for (unsigned l = 0; l < lanes; l++) {
    ovl_stage_options_t stage = stage_options(add_lane(p, OVL_LANE_POOL, 1), compute_and_meet, NULL);
    stage.unchained = 1;
    add_stage_with(p, &stage);
  }
  watchdog_expect("ops that wait for each other");
  int status = ovl_pipeline_run(p, MOST_MICROBATCHES);
  ovl_pipeline_close(p, NULL);
  if (ovl_crowd_waits() == 0)
    return; /* nobody ever stands by */
  assert_int_equal(status, OVL_ECANCELED);
  assert_int_equal(atomic_load(&together), lanes);
}

int main(void) {
  char threads[16];
  lanes = uv_available_parallelism() + 2;
  (void)snprintf(threads, sizeof threads, "%u", lanes);
  setenv("UV_THREADPOOL_SIZE", threads, 1); /* before libuv makes them */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_computes_needs_a_processor_each),
      cmocka_unit_test(who_waits_does_not),
      cmocka_unit_test(it_is_lifted_for_a_while),
      cmocka_unit_test(one_alone_is_tried_and_kept_if_better),
      cmocka_unit_test(one_alone_is_not_tried_for_nothing),
      cmocka_unit_test(ops_that_become_longer_bring_the_others_back),
      cmocka_unit_test(few_spans_say_little),
      cmocka_unit_test(one_alone_is_not_kept_for_a_lucky_span),
      cmocka_unit_test(others_have_time_to_show_what_they_bring),
      cmocka_unit_test(an_op_may_be_told_of_late),
      cmocka_unit_test(a_trial_ends_with_its_run),
      cmocka_unit_test(a_thread_that_slept_has_waited),
      cmocka_unit_test(ops_that_wait_for_each_other_find_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
