/* SPDX-License-Identifier: MIT */
/* Shows what examples/mpi/backend_mpi.c makes of MPI, on as many ranks as mpirun starts, at the thread level that the
 * argument names. MPI's own profiling interface watches who calls it. All ranks do the same tests in the same order. */
#include "mpi/backend_mpi.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/cmocka_all.h"
#include "support/describe.h"

enum { MICROBATCHES = 12, WINDOW = 3, LANES = 2, FAILING = 5 };

static int level;
static int rank;
static int ranks;
static backend_mpi_t mpi;

/* ---- MPI under watch ---- */

static atomic_int inside;       /* calls of MPI on their way */
static atomic_int most_inside;  /* of them at a time */
static atomic_int off_main;     /* calls from another thread than MPI's main thread */
static atomic_int calls;        /* of all kinds that lanes make */
static atomic_int refuse_tests; /* how many calls of MPI_Test are to fail */

static void enter(void) {
  int main_thread = 0;
  int now = atomic_fetch_add(&inside, 1) + 1;
  int most = atomic_load(&most_inside);
  while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now))
    ;
  (void)MPI_Is_thread_main(&main_thread); /* if it does not know, it counts as off */
  atomic_fetch_add(&off_main, !main_thread);
  atomic_fetch_add(&calls, 1);
}

static void leave(void) { atomic_fetch_sub(&inside, 1); }

/* It takes its time, so that two that are called at a time meet. */
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
  const struct timespec while_others_come = {0, 20000};
  enter();
  (void)nanosleep(&while_others_come, NULL);
  int code = atomic_fetch_sub(&refuse_tests, 1) > 0 ? MPI_ERR_OTHER : PMPI_Test(request, flag, status);
  leave();
  return code;
}

int MPI_Iallreduce(const void *send, void *receive, int count, MPI_Datatype type, MPI_Op sum, MPI_Comm comm,
                   MPI_Request *request) {
  enter();
  int code = PMPI_Iallreduce(send, receive, count, type, sum, comm, request);
  leave();
  return code;
}

/* ---- a pipeline: what computes, then a lane for each of two sums ---- */

typedef struct rig {
  mpi_lane_t lanes[LANES];
  ovl_pipeline_t *pipeline;
  int64_t values[LANES][WINDOW];
  int64_t results[LANES][MICROBATCHES];
  int statuses[MICROBATCHES];
  int count;        /* of values in a sum */
  int failing_rank; /* where microbatch FAILING fails; -1: none */
} rig_t;

static int compute(ovl_op_t *op) {
  rig_t *rig = op->data;
  for (int lane = 0; lane < LANES; lane++)
    rig->values[lane][op->slot] = (int64_t)op->microbatch * 100 + lane * 10 + rank;
  return op->microbatch == FAILING && rig->failing_rank == rank ? UV_EIO : 0;
}

static int start(rig_t *rig, int lane, ovl_op_t *op) {
  MPI_Request *request;
  mpi_lane_t *link = &rig->lanes[lane];
  int status = mpi_lane_begin(link, op, &request);
  if (status != 0)
    return status;
  return mpi_lane_started(link, MPI_Iallreduce(MPI_IN_PLACE, &rig->values[lane][op->slot], rig->count,
                                               MPI_INT64_T, MPI_SUM, link->comm, request));
}

static int start_first(ovl_op_t *op) { return start(op->data, 0, op); }
static int start_second(ovl_op_t *op) { return start(op->data, 1, op); }

static void on_microbatch(ovl_pipeline_t *p, uint64_t microbatch, void *item, int status) {
  rig_t *rig = ovl_pipeline_data(p);
  (void)item;
  rig->statuses[microbatch] = status;
  for (int lane = 0; lane < LANES; lane++)
    rig->results[lane][microbatch] = rig->values[lane][microbatch % WINDOW];
}

/* Both lanes wait for `compute` alone, so that they are at work together. */
static void open_rig(rig_t *rig, uint32_t window) {
  static const ovl_op_cb starts[LANES] = {start_first, start_second};
  ovl_pipeline_options_t options = pipeline_options(window);
  memset(rig, 0, sizeof *rig);
  rig->count = 1;
  rig->failing_rank = -1;
  options.data = rig;
  options.on_error = OVL_ON_ERROR_CONTINUE;
  options.on_microbatch = on_microbatch;
  options.on_failure = backend_mpi_on_failure;
  rig->pipeline = make_pipeline(&options);
  ovl_stage_t first = add_stage(rig->pipeline, add_lane(rig->pipeline, OVL_LANE_POOL, 1), compute, rig);
  for (int lane = 0; lane < LANES; lane++) {
    ovl_lane_options_t link = lane_options("link", OVL_LANE_POOL, 1);
    assert_int_equal(mpi_lane_init(&rig->lanes[lane], &mpi, MPI_COMM_WORLD), 0);
    mpi_lane_describe(&rig->lanes[lane], &link);
    ovl_stage_options_t stage = stage_options(add_lane_with(rig->pipeline, &link), starts[lane], rig);
    stage.always = stage.unchained = 1;
    ovl_stage_t added = add_stage_with(rig->pipeline, &stage);
    assert_int_equal(ovl_pipeline_add_dependency(rig->pipeline, first, added, 0), 0);
  }
}

static void close_rig(rig_t *rig) {
  ovl_pipeline_close(rig->pipeline, NULL);
  for (int lane = 0; lane < LANES; lane++)
    mpi_lane_finish(&rig->lanes[lane]);
}

static int run(rig_t *rig) {
  for (int lane = 0; lane < LANES; lane++)
    assert_int_equal(mpi_lane_compare(&rig->lanes[lane], rig->pipeline, MICROBATCHES, NULL), 0);
  return ovl_pipeline_run(rig->pipeline, MICROBATCHES);
}

static void assert_sums(const rig_t *rig, uint64_t microbatch) {
  for (int lane = 0; lane < LANES; lane++)
    assert_int_equal(rig->results[lane][microbatch],
                     ranks * ((int64_t)microbatch * 100 + lane * 10) + ranks * (ranks - 1) / 2);
}

/* ---- the tests ---- */

static void lanes_sum_over_the_ranks(void **state) {
  rig_t rig;
  (void)state;
  open_rig(&rig, WINDOW);
  assert_int_equal(run(&rig), 0);
  for (uint64_t i = 0; i < MICROBATCHES; i++)
    assert_sums(&rig, i);
  close_rig(&rig);
}

/* Two ops of two lanes want to be polled at a time, for MPI_Test takes its time. */
static void who_calls_mpi_is_what_its_level_allows(void **state) {
  rig_t rig;
  (void)state;
  open_rig(&rig, WINDOW);
  atomic_store(&most_inside, 0);
  atomic_store(&off_main, 0);
  atomic_store(&calls, 0);
  assert_int_equal(run(&rig), 0);
  assert_true(atomic_load(&calls) >= 4 * LANES * MICROBATCHES);
  if (level != MPI_THREAD_MULTIPLE)
    assert_int_equal(atomic_load(&most_inside), 1);
  if (level == MPI_THREAD_FUNNELED)
    assert_int_equal(atomic_load(&off_main), 0);
  else
    assert_true(atomic_load(&off_main) >= 4 * LANES * MICROBATCHES);
  close_rig(&rig);
}

static void a_failure_on_one_rank_is_the_same_on_all(void **state) {
  rig_t rig;
  (void)state;
  open_rig(&rig, WINDOW);
  rig.failing_rank = ranks - 1;
  assert_int_equal(run(&rig), UV_EIO);
  for (uint64_t i = 0; i < MICROBATCHES; i++) {
    assert_int_equal(rig.statuses[i], i == FAILING ? UV_EIO : 0);
    if (i != FAILING)
      assert_sums(&rig, i);
  }
  rig.failing_rank = -1; /* and the next run knows nothing of it */
  assert_int_equal(run(&rig), 0);
  assert_sums(&rig, FAILING);
  close_rig(&rig);
}

static void errors_of_mpi_are_returned_and_named(void **state) {
  rig_t rig;
  char words[MPI_MAX_ERROR_STRING];
  (void)state;
  open_rig(&rig, WINDOW);
  rig.count = -1; /* on all ranks, or those that do it right would wait */
  int status = run(&rig);
  assert_int_equal(status, BACKEND_MPI_ERROR - MPI_ERR_COUNT);
  assert_non_null(strstr(backend_mpi_words(status, words), "MPI_ERR_COUNT"));
  assert_string_equal(failure_of(rig.pipeline).lane_name, "link");
  rig.count = 1;
  assert_int_equal(run(&rig), 0);
  close_rig(&rig);
}

static void words_for_what_is_not_of_mpi(void **state) {
  char words[MPI_MAX_ERROR_STRING];
  (void)state;
  assert_string_equal(backend_mpi_words(0, words), ovl_strerror(0));
  assert_string_equal(backend_mpi_words(OVL_ETIMEDOUT, words), ovl_strerror(OVL_ETIMEDOUT));
  assert_string_equal(backend_mpi_words(OVL_EORDER, words), ovl_strerror(OVL_EORDER));
  assert_string_equal(backend_mpi_words(UV_EIO, words), uv_strerror(UV_EIO));
  assert_non_null(strstr(backend_mpi_words(BACKEND_MPI_ETHREAD, words), "main thread"));
}

static void a_description_of_another_order_is_refused(void **state) {
  rig_t rig;
  mpi_fingerprints_t prints;
  (void)state;
  open_rig(&rig, rank == 0 ? WINDOW : WINDOW - 1);
  int status = mpi_lane_compare(&rig.lanes[0], rig.pipeline, MICROBATCHES, &prints);
  assert_int_equal(status, ranks == 1 ? 0 : OVL_EINVAL);
  assert_true(prints.own == ovl_pipeline_fingerprint(rig.pipeline, MICROBATCHES));
  assert_true(prints.own == prints.least || prints.own == prints.most);
  assert_true((prints.least < prints.most) == (ranks > 1));
  close_rig(&rig);
}

/* By hand, without a pipeline: a stand-in for an op, which nobody completes. */
static void a_lane_takes_one_op_at_a_time_and_none_when_given_up(void **state) {
  mpi_lane_t lane;
  ovl_op_t op = {.status = 0};
  MPI_Request *request;
  (void)state;
  assert_int_equal(mpi_lane_init(&lane, &mpi, MPI_COMM_WORLD), 0);
  assert_int_equal(mpi_lane_begin(&lane, &op, &request), 0);
  assert_int_equal(mpi_lane_started(&lane, MPI_Ibarrier(lane.comm, request)), OVL_PENDING);
  assert_int_equal(mpi_lane_begin(&lane, &op, &request), OVL_EBUSY);
  while (lane.op != NULL)
    mpi_lane_poll(NULL, (ovl_lane_t){1}, &lane);
  mpi_lane_abort(NULL, (ovl_lane_t){1}, &lane);
  assert_int_equal(mpi_lane_begin(&lane, &op, &request), OVL_ECANCELED);
  mpi_lane_finish(&lane);
}

/* The last rank does not come in time: what waits for it is given up, and ends when it is polled next. */
static void a_collective_that_is_given_up_ends(void **state) {
  mpi_lane_t lane;
  ovl_op_t op = {.status = 0};
  MPI_Request *request;
  (void)state;
  assert_int_equal(mpi_lane_init(&lane, &mpi, MPI_COMM_WORLD), 0);
  if (rank < ranks - 1) {
    assert_int_equal(mpi_lane_begin(&lane, &op, &request), 0);
    assert_int_equal(mpi_lane_started(&lane, MPI_Ibarrier(lane.comm, request)), OVL_PENDING);
    mpi_lane_poll(NULL, (ovl_lane_t){1}, &lane);
    assert_ptr_equal(lane.op, &op);
    mpi_lane_abort(NULL, (ovl_lane_t){1}, &lane);
    mpi_lane_poll(NULL, (ovl_lane_t){1}, &lane);
    assert_null(lane.op);
  }
  /* Now it comes after all, so that MPI lets go of it. */
  assert_int_equal(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
  if (rank == ranks - 1) {
    assert_int_equal(mpi_lane_begin(&lane, &op, &request), 0);
    assert_int_equal(mpi_lane_started(&lane, MPI_Ibarrier(lane.comm, request)), OVL_PENDING);
  }
  assert_int_equal(PMPI_Waitall(2, lane.requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
  mpi_lane_finish(&lane);
}

static void an_error_of_a_test_ends_the_op(void **state) {
  rig_t rig;
  (void)state;
  if (ranks > 1)
    skip(); /* the requests that failed are lost, so other ranks would wait */
  open_rig(&rig, WINDOW);
  atomic_store(&refuse_tests, 1);
  assert_int_equal(run(&rig), BACKEND_MPI_ERROR - MPI_ERR_OTHER);
  atomic_store(&refuse_tests, 0);
  close_rig(&rig);
}

static void run_elsewhere(void *argument) {
  rig_t *rig = argument;
  rig->statuses[0] = ovl_pipeline_run(rig->pipeline, MICROBATCHES);
}

static void a_loop_on_another_thread_is_refused_when_funneled(void **state) {
  rig_t rig;
  uv_thread_t thread;
  (void)state;
  if (level != MPI_THREAD_FUNNELED)
    skip();
  open_rig(&rig, WINDOW);
  int before = atomic_load(&calls);
  assert_int_equal(uv_thread_create(&thread, run_elsewhere, &rig), 0);
  assert_int_equal(uv_thread_join(&thread), 0);
  assert_int_equal(failure_of(rig.pipeline).status, BACKEND_MPI_ETHREAD);
  assert_int_equal(atomic_load(&calls), before);
  close_rig(&rig);
}

/* ---- the program ---- */

static int find_level(const char *name) {
  static const char *const names[] = {"funneled", "serialized", "multiple"};
  static const int values[] = {MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
    if (strcmp(name, names[i]) == 0)
      return values[i];
  return MPI_THREAD_SINGLE;
}

static int run_all(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lanes_sum_over_the_ranks),
      cmocka_unit_test(who_calls_mpi_is_what_its_level_allows),
      cmocka_unit_test(a_failure_on_one_rank_is_the_same_on_all),
      cmocka_unit_test(errors_of_mpi_are_returned_and_named),
      cmocka_unit_test(words_for_what_is_not_of_mpi),
      cmocka_unit_test(a_description_of_another_order_is_refused),
      cmocka_unit_test(a_lane_takes_one_op_at_a_time_and_none_when_given_up),
      cmocka_unit_test(a_collective_that_is_given_up_ends),
      cmocka_unit_test(an_error_of_a_test_ends_the_op),
      cmocka_unit_test(a_loop_on_another_thread_is_refused_when_funneled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv) {
  level = find_level(argc > 1 ? argv[1] : "multiple");
  if (MPI_Init_thread(&argc, &argv, level, &level) != MPI_SUCCESS)
    return EXIT_FAILURE;
  (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char *why = backend_mpi_init(&mpi);
  if (level == MPI_THREAD_SINGLE)
    return MPI_Finalize() == MPI_SUCCESS && why != NULL && strstr(why, "MPI_THREAD_SINGLE") != NULL
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
  if (why != NULL)
    return EXIT_FAILURE;
  int failed = run_all();
  backend_mpi_finish(&mpi);
  if (failed != 0)
    (void)MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE); /* others may wait for this rank */
  return MPI_Finalize() == MPI_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
