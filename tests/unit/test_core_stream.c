/* SPDX-License-Identifier: MIT */
/* Shows how a streaming run takes its items: how many are held, in which order they become microbatches, and what
 * becomes of those that never do. */
#include "core/core.h"
#include "ovl/errors.h"
#include "support/cmocka_all.h"
#include "support/core_rig.h"

static int items[64];

static rig_t *rig_new_streaming(uint32_t window, uint32_t queue) {
  rig_t *rig = rig_new(window);
  rig->options.queue = queue;
  rig_stage(rig, rig_lane(rig, window));
  return rig;
}

/* Takes the next op, which must be of this microbatch and have its item. */
static ovl_core_op_t *take_item(rig_t *rig, uint64_t microbatch) {
  ovl_core_op_t *op = rig_take_op(rig, 0, microbatch, 0);
  assert_ptr_equal(op->pub.item, &items[microbatch]);
  return op;
}

static void each_item_becomes_a_microbatch_in_turn(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(2, 1);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  assert_false(ovl_core_over(&rig->core));
  for (uint64_t i = 0; i < 50; i++) {
    assert_int_equal(rig_submit(rig, &items[i]), 0);
    rig_end(rig, take_item(rig, i), 0);
  }
  assert_false(ovl_core_over(&rig->core)); /* more may come */
  rig_finish(rig);
  assert_true(ovl_core_over(&rig->core));
  assert_int_equal(rig->core.tally.retired, 50);
  rig_free(rig);
}

static void window_and_queue_together_are_held(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(2, 3);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  for (int i = 0; i < 5; i++) {
    assert_true(ovl_core_has_room(&rig->core));
    assert_int_equal(rig_submit(rig, &items[i]), 0);
  }
  assert_false(ovl_core_has_room(&rig->core));
  assert_int_equal(rig_submit(rig, &items[5]), OVL_EAGAIN);
  assert_int_equal(rig->core.in_flight, 2);
  assert_int_equal(rig->core.item_count, 3);
  ovl_core_op_t *op = take_item(rig, 0);
  assert_false(ovl_core_has_room(&rig->core));
  rig_end(rig, op, 0);
  assert_true(ovl_core_has_room(&rig->core));
  assert_int_equal(rig_submit(rig, &items[5]), 0);
  rig_finish(rig);
  for (uint64_t i = 1; i < 6; i++)
    rig_end(rig, take_item(rig, i), 0);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void without_a_queue_the_window_alone_is_held(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(1, 0);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  assert_int_equal(rig_submit(rig, NULL), 0);
  assert_int_equal(rig_submit(rig, NULL), OVL_EAGAIN);
  rig_end(rig, rig_take_op(rig, 0, 0, 0), 0);
  assert_int_equal(rig_submit(rig, NULL), 0);
  rig_free(rig);
}

/* A microbatch that ended but is not retired still has its place. */
static void there_is_room_only_when_one_has_retired(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(1, 0);
  rig->options.report = true;
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  assert_int_equal(rig_submit(rig, &items[0]), 0);
  rig_end(rig, take_item(rig, 0), 0);
  assert_false(ovl_core_has_room(&rig->core));
  ovl_core_slot_t *slot = ovl_core_next_ended(&rig->core);
  assert_ptr_equal(slot->item, &items[0]);
  rig_retire(rig, slot);
  assert_true(ovl_core_has_room(&rig->core));
  rig_free(rig);
}

static void items_given_before_the_run_wait_for_it(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(2, 1);
  for (int i = 0; i < 3; i++)
    assert_int_equal(rig_submit(rig, &items[i]), 0);
  assert_int_equal(rig_submit(rig, &items[3]), OVL_EAGAIN);
  rig_finish(rig);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  for (uint64_t i = 0; i < 3; i++)
    rig_end(rig, take_item(rig, i), 0);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void items_given_between_two_runs_belong_to_the_next(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(2, 2);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  rig_finish(rig);
  assert_true(ovl_core_over(&rig->core));
  ovl_core_leave(&rig->core);
  assert_int_equal(rig_submit(rig, &items[0]), 0);
  assert_int_equal(rig->core.next, 0);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  rig_end(rig, take_item(rig, 0), 0);
  assert_false(ovl_core_over(&rig->core)); /* the end of the first run was not this one's */
  rig_finish(rig);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void a_stream_without_items_ends_when_it_is_finished(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(2, 2);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  assert_false(ovl_core_over(&rig->core));
  rig_finish(rig);
  rig_finish(rig); /* harmless */
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void a_stream_without_stages_retires_what_it_gets(void **state) {
  (void)state;
  rig_t *rig = rig_new(2);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  for (int i = 0; i < 10; i++)
    assert_int_equal(rig_submit(rig, &items[i]), 0);
  assert_int_equal(rig->core.tally.retired, 10);
  rig_finish(rig);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

static void serial_streams_hold_as_many_items(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(2, 3);
  rig_begin(rig, OVL_SERIAL, OVL_STREAMING);
  for (int i = 0; i < 5; i++)
    assert_int_equal(rig_submit(rig, &items[i]), 0);
  assert_int_equal(rig_submit(rig, &items[5]), OVL_EAGAIN);
  assert_int_equal(rig->core.in_flight, 1);
  rig_finish(rig);
  for (uint64_t i = 0; i < 5; i++)
    rig_end(rig, take_item(rig, i), 0);
  assert_true(ovl_core_over(&rig->core));
  rig_free(rig);
}

/* After a cancel: those admitted end, those queued are given back in turn with the numbers they would have had. */
static void items_never_admitted_are_given_back(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(2, 3);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  for (int i = 0; i < 5; i++)
    assert_int_equal(rig_submit(rig, &items[i]), 0);
  ovl_core_op_t *op = take_item(rig, 0);
  rig_cancel(rig);
  assert_int_equal(rig->core.item_count, 3);
  rig_end(rig, op, 0);
  assert_true(ovl_core_over(&rig->core));
  void *item;
  uint64_t microbatch;
  for (uint64_t i = 2; i < 5; i++) {
    assert_true(ovl_core_drop_item(&rig->core, &item, &microbatch));
    assert_int_equal(microbatch, i);
    assert_ptr_equal(item, &items[i]);
  }
  assert_false(ovl_core_drop_item(&rig->core, &item, &microbatch));
  rig_free(rig);
}

/* Items that came after a run has been left are numbered from 0: they are the next run's. */
static void items_that_no_run_takes_are_numbered_anew(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(2, 3);
  void *item;
  uint64_t microbatch;
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  for (uint64_t i = 0; i < 4; i++) {
    assert_int_equal(rig_submit(rig, &items[i]), 0);
    rig_end(rig, take_item(rig, i), 0);
  }
  rig_finish(rig);
  ovl_core_leave(&rig->core);
  assert_int_equal(rig_submit(rig, &items[7]), 0);
  assert_true(ovl_core_drop_item(&rig->core, &item, &microbatch));
  assert_int_equal(microbatch, 0);
  assert_ptr_equal(item, &items[7]);
  rig_free(rig);
}

/* The ring of items turns round, with every number of items in it. */
static void the_queue_keeps_its_order_as_it_turns_round(void **state) {
  (void)state;
  rig_t *rig = rig_new_streaming(1, 4);
  rig_begin(rig, OVL_OVERLAP, OVL_STREAMING);
  uint64_t given = 0, taken = 0;
  for (int depth = 1; depth <= 5; depth++)
    for (int turn = 0; turn < 6; turn++) {
      while (given - taken < (uint64_t)depth)
        assert_int_equal(rig_submit(rig, &items[given++ % 64]), 0);
      ovl_core_op_t *op = rig_take_op(rig, 0, taken, 0);
      assert_ptr_equal(op->pub.item, &items[taken++ % 64]);
      rig_end(rig, op, 0);
    }
  rig_free(rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_item_becomes_a_microbatch_in_turn),
      cmocka_unit_test(window_and_queue_together_are_held),
      cmocka_unit_test(without_a_queue_the_window_alone_is_held),
      cmocka_unit_test(there_is_room_only_when_one_has_retired),
      cmocka_unit_test(items_given_before_the_run_wait_for_it),
      cmocka_unit_test(items_given_between_two_runs_belong_to_the_next),
      cmocka_unit_test(a_stream_without_items_ends_when_it_is_finished),
      cmocka_unit_test(a_stream_without_stages_retires_what_it_gets),
      cmocka_unit_test(serial_streams_hold_as_many_items),
      cmocka_unit_test(items_never_admitted_are_given_back),
      cmocka_unit_test(items_that_no_run_takes_are_numbered_anew),
      cmocka_unit_test(the_queue_keeps_its_order_as_it_turns_round),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
