/* SPDX-License-Identifier: MIT */
/* Runs a graph while every callback checks, against a book that is kept beside the library's own, that it was
 * called when it might be. */
#include "support/graphs.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/describe.h"
#include "support/faults.h"
#include "support/foreign.h"
#include "support/watchdog.h"

enum { POLLED_MOST = 16, POLLS = 3, FOREIGN_THREADS = 2 };

struct book;

typedef struct lane_book {
  struct book *book;
  uint32_t width;
  atomic_uint running;
  atomic_int runs, polls; /* callbacks inside, and poll hooks */
  uv_mutex_t mutex;       /* protects the two below */
  ovl_op_t *pending[POLLED_MOST];
  int polls_left[POLLED_MOST];
} lane_book_t;

typedef struct stage_book {
  struct book *book;
  uint32_t index;
  lane_book_t *lane;
  const graph_stage_t *stage;
  atomic_uchar *started, *ended; /* by microbatch */
} stage_book_t;

typedef struct book {
  const graph_t *graph;
  const graph_variation_t *variation;
  char where[160];
  uint64_t count;
  uint32_t limit; /* microbatches in flight: window, or 1 in serial mode */
  lane_book_t lanes[GRAPH_LANES];
  stage_book_t stages[GRAPH_STAGES];
  uint32_t lane_count, stage_count;
  atomic_uchar *reported; /* by microbatch */
  atomic_uint running;
  foreign_t foreign;
  uv_mutex_t mutex; /* protects `room` */
  uv_cond_t cond;
  bool room;
} book_t;

/* ---- what must hold when an op starts --------------------------------------------------------------------- */

static bool has_ended(const book_t *b, uint32_t stage, uint64_t microbatch) {
  return b->graph->stages[stage].style == STYLE_NOTHING ||
         atomic_load(&b->stages[stage].ended[microbatch]) != 0;
}

static void check_dependencies(const stage_book_t *s, uint64_t mb) {
  const book_t *b = s->book;
  if (s->index > 0 && !s->stage->unchained)
    expect(has_ended(b, s->index - 1, mb), "%s of %d started before the previous stage ended", s->stage->name,
           (int)mb);
  for (uint32_t d = 0; d < GRAPH_DEPENDENCIES; d++) {
    graph_dependency_t dep = b->graph->dependencies[d];
    if (dep.before == 0 && dep.after == 0 && dep.distance == 0)
      break;
    if (dep.after == s->index && dep.distance <= mb)
      expect(has_ended(b, dep.before, mb - dep.distance), "%s of %d started before %s of %d had ended",
             s->stage->name, (int)mb, b->graph->stages[dep.before].name, (int)(mb - dep.distance));
  }
}

static void check_slot_is_free(const stage_book_t *s, uint64_t mb) {
  const book_t *b = s->book;
  if (mb < b->limit)
    return;
  uint64_t before = mb - b->limit;
  if (b->variation->report)
    expect(atomic_load(&b->reported[before]) == 2, "%d was admitted before %d had retired", (int)mb,
           (int)before);
  for (uint32_t i = 0; i < b->stage_count; i++)
    expect(has_ended(b, i, before), "%d was admitted before %s of %d had ended", (int)mb,
           b->graph->stages[i].name, (int)before);
}

static void *item_of(const book_t *b, uint64_t mb) {
  return b->variation->streaming ? (void *)(uintptr_t)(mb + 1) : NULL;
}

static void enter(stage_book_t *s, const ovl_op_t *op) {
  book_t *b = s->book;
  uint64_t mb = op->microbatch;
  if (mb >= b->count) {
    note_fault("%s of a microbatch %llu that does not exist", s->stage->name, (unsigned long long)mb);
    return;
  }
  uint32_t window = ovl_pipeline_window(op->pipeline);
  expect(atomic_exchange(&s->started[mb], 1) == 0, "%s of %d ran twice", s->stage->name, (int)mb);
  expect(op->slot == mb % window && op->stage.id == s->index + 1 && op->status == 0 &&
             op->item == item_of(b, mb),
         "%s of %d has a wrong slot, stage, status or item", s->stage->name, (int)mb);
  expect(atomic_fetch_add(&s->lane->running, 1) < s->lane->width, "a lane ran more than its width");
  unsigned running = atomic_fetch_add(&b->running, 1);
  expect(b->variation->mode == OVL_OVERLAP || running == 0, "two ops at a time in serial mode");
  check_dependencies(s, mb);
  check_slot_is_free(s, mb);
}

static void note_end(stage_book_t *s, const ovl_op_t *op) {
  atomic_fetch_sub(&s->lane->running, 1);
  atomic_fetch_sub(&s->book->running, 1);
  if (op->microbatch < s->book->count)
    atomic_store(&s->ended[op->microbatch], 1);
}

static void end_foreign(ovl_op_t *op) {
  note_end(op->data, op);
  int r = ovl_op_complete(op, 0);
  expect(r == 0, "ovl_op_complete on a foreign thread: %s", ovl_err_name(r));
}

/* ---- callbacks ---------------------------------------------------------------------------------------------- */

static void work(const book_t *b) {
  uint64_t until = uv_hrtime() + b->variation->work_ns;
  while (b->variation->work_ns > 0 && uv_hrtime() < until)
    ;
}

static void await_poll(lane_book_t *lane, ovl_op_t *op) {
  int i = 0;
  uv_mutex_lock(&lane->mutex);
  while (i < POLLED_MOST && lane->pending[i] != NULL)
    i++;
  expect(i < POLLED_MOST, "too many ops wait for a poll");
  if (i < POLLED_MOST) {
    lane->pending[i] = op;
    lane->polls_left[i] = (int)(op->microbatch % POLLS);
  }
  uv_mutex_unlock(&lane->mutex);
}

static int end_in_style(stage_book_t *s, ovl_op_t *op) {
  switch (s->stage->style) {
  case STYLE_INLINE:
  case STYLE_NOTHING:
    note_end(s, op);
    return 0;
  case STYLE_EARLY: {
    int r = ovl_op_complete(op, 0);
    expect(r == 0, "ovl_op_complete inside the callback: %s", ovl_err_name(r));
    note_end(s, op); /* not before the callback returns does it end */
    return OVL_PENDING;
  }
  case STYLE_FOREIGN:
    foreign_give(&s->book->foreign, op);
    return OVL_PENDING;
  case STYLE_POLLED:
    await_poll(s->lane, op);
    return OVL_PENDING;
  }
  return OVL_EINVAL;
}

static int run_stage(ovl_op_t *op) {
  stage_book_t *s = op->data;
  lane_book_t *lane = s->lane;
  atomic_fetch_add(&lane->runs, 1);
  expect(atomic_load(&lane->polls) == 0, "%s ran while its lane was polled", s->stage->name);
  enter(s, op);
  work(s->book);
  int result = end_in_style(s, op);
  expect(atomic_load(&lane->polls) == 0, "a lane was polled while %s ran", s->stage->name);
  atomic_fetch_sub(&lane->runs, 1);
  return result;
}

static void poll_lane(ovl_pipeline_t *p, ovl_lane_t id, void *data) {
  lane_book_t *lane = data;
  (void)p;
  expect(atomic_fetch_add(&lane->polls, 1) == 0, "lane %u is polled twice at the same time", (unsigned)id.id);
  expect(atomic_load(&lane->runs) == 0, "lane %u is polled while an op of it runs", (unsigned)id.id);
  for (int i = 0; i < POLLED_MOST; i++) {
    uv_mutex_lock(&lane->mutex);
    ovl_op_t *op = lane->pending[i];
    if (op != NULL && lane->polls_left[i]-- == 0)
      lane->pending[i] = NULL;
    else
      op = NULL;
    uv_mutex_unlock(&lane->mutex);
    if (op != NULL) {
      note_end(op->data, op);
      expect(ovl_op_complete(op, 0) == 0, "ovl_op_complete was refused in a poll hook");
    }
  }
  atomic_fetch_sub(&lane->polls, 1);
}

static void on_microbatch(ovl_pipeline_t *p, uint64_t mb, void *item, int status) {
  book_t *b = ovl_pipeline_data(p);
  if (mb >= b->count) {
    note_fault("a report of a microbatch %llu that does not exist", (unsigned long long)mb);
    return;
  }
  expect(status == 0 && item == item_of(b, mb), "%d was reported with %s", (int)mb, ovl_err_name(status));
  for (uint32_t i = 0; i < b->stage_count; i++)
    expect(has_ended(b, i, mb), "%d was reported before %s of it ended", (int)mb, b->graph->stages[i].name);
  expect(atomic_exchange(&b->reported[mb], 2) == 0, "%d was reported twice", (int)mb);
}

/* ---- submitting ------------------------------------------------------------------------------------------------ */

static void on_room(ovl_pipeline_t *p) {
  book_t *b = ovl_pipeline_data(p);
  uv_mutex_lock(&b->mutex);
  expect(!b->room, "on_room was called twice for one refusal");
  b->room = true;
  uv_cond_signal(&b->cond);
  uv_mutex_unlock(&b->mutex);
}

static void await_room(book_t *b) {
  uv_mutex_lock(&b->mutex);
  while (!b->room)
    uv_cond_wait(&b->cond, &b->mutex);
  b->room = false;
  uv_mutex_unlock(&b->mutex);
}

static void submit_all(void *argument) {
  ovl_pipeline_t *p = argument;
  book_t *b = ovl_pipeline_data(p);
  for (uint64_t mb = 0; mb < b->count; mb++) {
    int r = ovl_pipeline_submit(p, item_of(b, mb));
    if (r == OVL_EAGAIN) {
      await_room(b);
      r = ovl_pipeline_submit(p, item_of(b, mb));
    }
    expect(r == 0, "submit of %d: %s", (int)mb, ovl_err_name(r));
  }
  int r = ovl_pipeline_finish(p);
  expect(r == 0, "finish: %s", ovl_err_name(r));
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

static ovl_pipeline_t *describe_options(book_t *b) {
  ovl_pipeline_options_t options =
      pipeline_options(b->variation->window != 0 ? b->variation->window : b->graph->window);
  options.data = b;
  options.mode = b->variation->mode;
  options.no_stats = b->variation->no_stats;
  options.spin_ns = b->variation->spin_ns;
  options.on_room = on_room;
  if (b->variation->report)
    options.on_microbatch = on_microbatch;
  return make_pipeline(&options);
}

static void describe_lanes(book_t *b, ovl_pipeline_t *p) {
  for (; b->lane_count < GRAPH_LANES && b->graph->lanes[b->lane_count].name != NULL; b->lane_count++) {
    const graph_lane_t *from = &b->graph->lanes[b->lane_count];
    lane_book_t *lane = &b->lanes[b->lane_count];
    ovl_lane_options_t options = lane_options(from->name, from->kind, from->width);
    lane->book = b;
    lane->width = from->width;
    uv_mutex_init(&lane->mutex);
    options.data = lane;
    if (from->polled)
      options.poll = poll_lane;
    add_lane_with(p, &options);
  }
}

static void describe_stages(book_t *b, ovl_pipeline_t *p) {
  for (; b->stage_count < GRAPH_STAGES && b->graph->stages[b->stage_count].name != NULL; b->stage_count++) {
    const graph_stage_t *from = &b->graph->stages[b->stage_count];
    stage_book_t *s = &b->stages[b->stage_count];
    *s = (stage_book_t){.book = b, .index = b->stage_count, .lane = &b->lanes[from->lane], .stage = from};
    s->started = calloc((size_t)b->count + 1, sizeof *s->started);
    s->ended = calloc((size_t)b->count + 1, sizeof *s->ended);
    assert_true(s->started != NULL && s->ended != NULL);
    ovl_stage_options_t options =
        stage_options((ovl_lane_t){from->lane + 1}, from->style == STYLE_NOTHING ? NULL : run_stage, s);
    options.name = from->name;
    options.unchained = from->unchained;
    add_stage_with(p, &options);
  }
}

static void describe_dependencies(const book_t *b, ovl_pipeline_t *p) {
  for (uint32_t i = 0; i < GRAPH_DEPENDENCIES; i++) {
    graph_dependency_t d = b->graph->dependencies[i];
    if (d.before == 0 && d.after == 0 && d.distance == 0)
      break;
    assert_int_equal(
        ovl_pipeline_add_dependency(p, (ovl_stage_t){d.before + 1}, (ovl_stage_t){d.after + 1}, d.distance),
        0);
  }
}

static void check_run(const book_t *b, const ovl_pipeline_t *p) {
  for (uint64_t mb = 0; mb < b->count; mb++) {
    for (uint32_t s = 0; s < b->stage_count; s++)
      expect(has_ended(b, s, mb), "%s of %d never ran", b->graph->stages[s].name, (int)mb);
    expect(!b->variation->report || atomic_load(&b->reported[mb]) == 2, "%d was never reported", (int)mb);
  }
  ovl_stats_t stats = stats_of(p);
  expect(stats.microbatches == b->count && stats.failed == 0 && stats.skipped == 0,
         "the counts of microbatches");
  expect(stats.ops == b->count * b->stage_count, "the count of ops");
  expect(stats.bound_ns <= stats.elapsed_ns, "faster than its bound");
}

static void free_book(book_t *b) {
  for (uint32_t i = 0; i < b->stage_count; i++) {
    free(b->stages[i].started);
    free(b->stages[i].ended);
  }
  for (uint32_t i = 0; i < b->lane_count; i++)
    uv_mutex_destroy(&b->lanes[i].mutex);
  uv_mutex_destroy(&b->mutex);
  uv_cond_destroy(&b->cond);
  free(b->reported);
  free(b);
}

void run_graph(const graph_t *graph, const graph_variation_t *variation, uint64_t microbatches) {
  book_t *b = calloc(1, sizeof *b);
  assert_non_null(b);
  b->graph = graph;
  b->variation = variation;
  b->count = microbatches;
  b->reported = calloc((size_t)microbatches + 1, sizeof *b->reported);
  assert_non_null(b->reported);
  snprintf(b->where, sizeof b->where, "\"%s\", %s", graph->name, variation->name);
  watchdog_expect(b->where);
  uv_mutex_init(&b->mutex);
  uv_cond_init(&b->cond);
  ovl_pipeline_t *p = describe_options(b);
  describe_lanes(b, p);
  describe_stages(b, p);
  describe_dependencies(b, p);
  b->limit = variation->mode == OVL_SERIAL ? 1 : ovl_pipeline_window(p);
  foreign_start(&b->foreign, FOREIGN_THREADS, (size_t)ovl_pipeline_window(p) * GRAPH_STAGES, end_foreign);
  uv_thread_t submitter;
  if (variation->streaming)
    assert_int_equal(uv_thread_create(&submitter, submit_all, p), 0);
  int r = ovl_pipeline_run(p, variation->streaming ? OVL_STREAMING : microbatches);
  expect(r == 0, "the run ended with %s", ovl_err_name(r));
  if (variation->streaming)
    uv_thread_join(&submitter);
  foreign_stop(&b->foreign);
  check_run(b, p);
  ovl_pipeline_close(p, NULL);
  watchdog_expect("the next thing");
  char where[sizeof b->where];
  snprintf(where, sizeof where, "%s", b->where);
  free_book(b);
  assert_no_faults(where);
}

void run_all_graphs(uint64_t microbatches) {
  for (size_t v = 0; v < all_variation_count; v++)
    for (size_t g = 0; g < all_graph_count; g++)
      run_graph(&all_graphs[g], &all_variations[v], microbatches);
}
