/* SPDX-License-Identifier: MIT */
/* Shows that overlap_sim's check passes honest runs and refuses every kind of dishonest one.
 * All runs here are made up: nothing sleeps and no pipeline runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "overlap_check.h"

#define N 4
#define COMPUTE UINT64_C(50)
#define COMM UINT64_C(30)
#define BOUND (N * COMPUTE + COMM)
#define ORIGIN UINT64_C(1000)

/* The best run there is: computes back to back, each communication right after its compute. */
typedef struct fixture {
  backend_sleep_record_t records[N];
  overlap_run_t run;
  char message[256];
} fixture_t;

static void make_best_run(fixture_t *fixture) {
  memset(fixture, 0, sizeof *fixture);
  for (uint64_t i = 0; i < N; i++) {
    backend_sleep_record_t *record = &fixture->records[i];
    record->compute_start_ns = ORIGIN + i * COMPUTE;
    record->compute_end_ns = record->compute_start_ns + COMPUTE;
    record->comm_start_ns = record->compute_end_ns;
    record->comm_end_ns = record->comm_start_ns + COMM;
    record->computes = record->comms = 1;
  }
  fixture->run.name = "overlapped";
  fixture->run.microbatches = N;
  fixture->run.window = 4;
  fixture->run.bound_ns = BOUND;
  fixture->run.elapsed_ns = BOUND;
  fixture->run.records = fixture->records;
}

static int set_up(void **state) {
  static fixture_t fixture;
  make_best_run(&fixture);
  *state = &fixture;
  return 0;
}

static void assert_passes(fixture_t *fixture) {
  assert_int_equal(overlap_check(&fixture->run, fixture->message, sizeof fixture->message), 0);
}

static void assert_refused(fixture_t *fixture, const char *because) {
  assert_int_equal(overlap_check(&fixture->run, fixture->message, sizeof fixture->message), -1);
  assert_non_null(strstr(fixture->message, because));
  assert_non_null(strstr(fixture->message, "overlapped run"));
  assert_null(strchr(fixture->message, '\n'));
}

static void a_run_of_exactly_the_bound_passes(void **state) {
  fixture_t *fixture = *state;
  assert_passes(fixture);
  assert_int_equal(overlap_run_start_ns(&fixture->run), ORIGIN);
  assert_int_equal(overlap_run_span_ns(&fixture->run), BOUND);
}

static void an_empty_run_passes(void **state) {
  fixture_t *fixture = *state;
  fixture->run.microbatches = 0;
  fixture->run.bound_ns = fixture->run.elapsed_ns = 0;
  assert_passes(fixture);
  assert_int_equal(overlap_run_span_ns(&fixture->run), 0);
}

static void one_nanosecond_too_fast_by_the_library_is_refused(void **state) {
  fixture_t *fixture = *state;
  fixture->run.elapsed_ns--;
  assert_refused(fixture, "by the library's clock, 1 ns faster than the bound");
}

static void one_nanosecond_too_fast_by_the_records_is_refused(void **state) {
  fixture_t *fixture = *state;
  fixture->records[N - 1].comm_end_ns--;
  assert_refused(fixture, "by the records, 1 ns faster than the bound");
}

/* The textbook mistake: comm of i starts together with compute of i, and n x compute is all it takes. */
static void communication_before_its_compute_has_ended_is_refused(void **state) {
  fixture_t *fixture = *state;
  for (uint64_t i = 0; i < N; i++) {
    fixture->records[i].comm_start_ns -= COMPUTE;
    fixture->records[i].comm_end_ns -= COMPUTE;
  }
  fixture->run.elapsed_ns = N * COMPUTE;
  assert_refused(fixture, "communication of microbatch 0 started 50 ns before its compute had ended");
}

static void one_early_communication_is_found_though_the_time_is_right(void **state) {
  fixture_t *fixture = *state;
  fixture->records[2].comm_start_ns--;
  assert_refused(fixture, "communication of microbatch 2 started 1 ns before its compute had ended");
}

static void two_computes_at_once_are_refused(void **state) {
  fixture_t *fixture = *state;
  fixture->records[1].compute_start_ns--;
  assert_refused(fixture, "compute of microbatch 1 started 1 ns before that of 0 had ended");
}

static void two_communications_at_once_are_refused(void **state) {
  fixture_t *fixture = *state;
  fixture->records[0].comm_end_ns = fixture->records[1].comm_start_ns + 7;
  assert_refused(fixture, "communication of microbatch 1 started 7 ns before that of 0 had ended");
}

static void a_start_outside_the_window_is_refused(void **state) {
  fixture_t *fixture = *state;
  fixture->run.window = 1;
  assert_refused(fixture, "microbatch 1 started 30 ns before microbatch 0 had left the window of 1");
}

static void an_operation_that_never_ran_is_refused(void **state) {
  fixture_t *fixture = *state;
  fixture->records[3].comms = 0;
  assert_refused(fixture, "compute of microbatch 3 ran 1 times and its communication 0 times");
}

static void an_operation_that_ran_twice_is_refused(void **state) {
  fixture_t *fixture = *state;
  fixture->records[0].computes = 2;
  assert_refused(fixture, "compute of microbatch 0 ran 2 times");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_run_of_exactly_the_bound_passes, set_up),
      cmocka_unit_test_setup(an_empty_run_passes, set_up),
      cmocka_unit_test_setup(one_nanosecond_too_fast_by_the_library_is_refused, set_up),
      cmocka_unit_test_setup(one_nanosecond_too_fast_by_the_records_is_refused, set_up),
      cmocka_unit_test_setup(communication_before_its_compute_has_ended_is_refused, set_up),
      cmocka_unit_test_setup(one_early_communication_is_found_though_the_time_is_right, set_up),
      cmocka_unit_test_setup(two_computes_at_once_are_refused, set_up),
      cmocka_unit_test_setup(two_communications_at_once_are_refused, set_up),
      cmocka_unit_test_setup(a_start_outside_the_window_is_refused, set_up),
      cmocka_unit_test_setup(an_operation_that_never_ran_is_refused, set_up),
      cmocka_unit_test_setup(an_operation_that_ran_twice_is_refused, set_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
