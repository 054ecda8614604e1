/* SPDX-License-Identifier: MIT */
/* Turns a description into a plan: collects the edges, orders the stages, and lays both out flat. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "ovl/errors.h"

/* A list of edges on its way into a graph. */
typedef struct edge_list {
  ovl_dependency_t *items;
  uint32_t count;
} edge_list_t;

static int compare_u32(uint32_t a, uint32_t b) { return (a > b) - (a < b); }

static int compare_edges(const void *left, const void *right) {
  const ovl_dependency_t *a = left, *b = right;
  int by = compare_u32(a->before, b->before);
  if (by == 0)
    by = compare_u32(a->distance, b->distance);
  return by != 0 ? by : compare_u32(a->after, b->after);
}

static void sort_and_unite(edge_list_t *list) {
  if (list->count == 0)
    return;
  qsort(list->items, list->count, sizeof *list->items, compare_edges);
  uint32_t kept = 1;
  for (uint32_t i = 1; i < list->count; i++)
    if (compare_edges(&list->items[kept - 1], &list->items[i]) != 0)
      list->items[kept++] = list->items[i];
  list->count = kept;
}

/* The chain and the declared dependencies, without those that the window implies: microbatch i is
 * admitted only after all up to i - window have retired. */
static int collect_edges(const ovl_description_t *d, const ovl_memory_t *memory, edge_list_t *list) {
  list->count = 0;
  list->items = ovl_memory_array(memory, (size_t)d->stage_count + d->dependency_count, sizeof *list->items);
  if (list->items == NULL)
    return OVL_ENOMEM;
  for (uint32_t s = 1; s < d->stage_count; s++)
    if (d->stages[s].chained)
      list->items[list->count++] = (ovl_dependency_t){.before = s - 1, .after = s};
  for (uint32_t i = 0; i < d->dependency_count; i++)
    if (d->dependencies[i].distance < d->window)
      list->items[list->count++] = d->dependencies[i];
  sort_and_unite(list);
  return 0;
}

static void lay_out(ovl_edges_t *edges, uint32_t stages, const edge_list_t *list, bool outgoing) {
  for (uint32_t i = 0; i < list->count; i++)
    edges->first[(outgoing ? list->items[i].before : list->items[i].after) + 1]++;
  for (uint32_t s = 0; s < stages; s++)
    edges->first[s + 1] += edges->first[s];
  /* first[s] is where the next edge of s goes; filling moves it to the start of s + 1 */
  for (uint32_t i = 0; i < list->count; i++) {
    const ovl_dependency_t *e = &list->items[i];
    uint32_t at = edges->first[outgoing ? e->before : e->after]++;
    edges->edges[at] = (ovl_edge_t){.stage = outgoing ? e->after : e->before, .distance = e->distance};
  }
  for (uint32_t s = stages; s > 0; s--)
    edges->first[s] = edges->first[s - 1];
  edges->first[0] = 0;
}

static int edges_init(ovl_edges_t *edges, uint32_t stages, const edge_list_t *list, bool outgoing,
                      const ovl_memory_t *memory) {
  edges->first = ovl_memory_array(memory, (size_t)stages + 1, sizeof *edges->first);
  edges->edges = ovl_memory_array(memory, list->count, sizeof *edges->edges);
  if (edges->first == NULL || edges->edges == NULL)
    return OVL_ENOMEM;
  lay_out(edges, stages, list, outgoing);
  return 0;
}

static int graph_init(ovl_graph_t *graph, uint32_t stages, const edge_list_t *list, uint32_t limit,
                      const ovl_memory_t *memory) {
  graph->limit = limit;
  for (uint32_t i = 0; i < list->count; i++)
    graph->crosses |= list->items[i].distance > 0;
  int r = edges_init(&graph->in, stages, list, false, memory);
  return r != 0 ? r : edges_init(&graph->out, stages, list, true, memory);
}

static void edges_finish(ovl_edges_t *edges, const ovl_memory_t *memory) {
  ovl_memory_free(memory, edges->first);
  ovl_memory_free(memory, edges->edges);
}

/* ---- order: every stage after those that it waits for, the lowest numbered first ------------------ */

/* Moves heap[at] up to its place in a heap whose least number is at 0. */
static void heap_up(uint32_t *heap, uint32_t at) {
  for (; at > 0 && heap[(at - 1) / 2] > heap[at]; at = (at - 1) / 2) {
    uint32_t parent = heap[(at - 1) / 2];
    heap[(at - 1) / 2] = heap[at];
    heap[at] = parent;
  }
}

static uint32_t heap_pop(uint32_t *heap, uint32_t *count) {
  uint32_t top = heap[0], moved = heap[--*count], at = 0;
  for (uint32_t child; (child = 2 * at + 1) < *count; at = child) {
    child += child + 1 < *count && heap[child + 1] < heap[child];
    if (heap[child] >= moved)
      break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
  return top;
}

static uint32_t order_stages(ovl_plan_t *plan, uint32_t *heap, uint32_t *waits) {
  const ovl_graph_t *graph = &plan->graphs[OVL_OVERLAP];
  uint32_t held = 0, ordered = 0;
  for (uint32_t s = 0; s < plan->stage_count; s++) {
    for (uint32_t e = graph->in.first[s]; e < graph->in.first[s + 1]; e++)
      waits[s] += graph->in.edges[e].distance == 0;
    if (waits[s] == 0) {
      heap[held++] = s;
      heap_up(heap, held - 1);
    }
  }
  while (held > 0) {
    uint32_t s = heap_pop(heap, &held);
    plan->order[ordered++] = s;
    for (uint32_t e = graph->out.first[s]; e < graph->out.first[s + 1]; e++)
      if (graph->out.edges[e].distance == 0 && --waits[graph->out.edges[e].stage] == 0) {
        heap[held++] = graph->out.edges[e].stage;
        heap_up(heap, held - 1);
      }
  }
  return ordered;
}

static int order_init(ovl_plan_t *plan, const uint32_t *given, const ovl_memory_t *memory) {
  uint32_t *heap = ovl_memory_array(memory, plan->stage_count, sizeof *heap);
  uint32_t *waits = ovl_memory_array(memory, plan->stage_count, sizeof *waits);
  plan->order = ovl_memory_array(memory, plan->stage_count, sizeof *plan->order);
  int r = OVL_ENOMEM;
  if (heap != NULL && waits != NULL && plan->order != NULL)
    r = order_stages(plan, heap, waits) == plan->stage_count ? 0 : OVL_ECYCLE;
  if (r == 0 && given != NULL)
    memcpy(plan->order, given, plan->stage_count * sizeof *given);
  ovl_memory_free(memory, heap);
  ovl_memory_free(memory, waits);
  return r;
}

/* ---- the plan -------------------------------------------------------------------------------------- */

static int overlap_graph_init(ovl_plan_t *plan, const ovl_description_t *d, const ovl_memory_t *memory) {
  edge_list_t list;
  int r = collect_edges(d, memory, &list);
  if (r == 0)
    r = graph_init(&plan->graphs[OVL_OVERLAP], d->stage_count, &list, d->window, memory);
  ovl_memory_free(memory, list.items);
  return r;
}

static int serial_graph_init(ovl_plan_t *plan, const ovl_memory_t *memory) {
  edge_list_t list = {.items = ovl_memory_array(memory, plan->stage_count, sizeof *list.items)};
  if (list.items == NULL)
    return OVL_ENOMEM;
  for (uint32_t k = 1; k < plan->stage_count; k++)
    list.items[list.count++] = (ovl_dependency_t){.before = plan->order[k - 1], .after = plan->order[k]};
  sort_and_unite(&list);
  int r = graph_init(&plan->graphs[OVL_SERIAL], plan->stage_count, &list, 1, memory);
  ovl_memory_free(memory, list.items);
  return r;
}

/* The stages of each lane, in the order in which a microbatch can go through them. */
static int lane_stages_init(ovl_plan_t *plan, const ovl_memory_t *memory) {
  plan->lane_first = ovl_memory_array(memory, (size_t)plan->lane_count + 1, sizeof *plan->lane_first);
  plan->lane_stages = ovl_memory_array(memory, plan->stage_count, sizeof *plan->lane_stages);
  uint32_t *next = ovl_memory_array(memory, plan->lane_count, sizeof *next);
  bool whole = plan->lane_first != NULL && plan->lane_stages != NULL && next != NULL;
  for (uint32_t s = 0; whole && s < plan->stage_count; s++)
    plan->lane_first[plan->stages[s].lane + 1]++;
  for (uint32_t l = 0; whole && l < plan->lane_count; l++) {
    next[l] = plan->lane_first[l];
    plan->lane_first[l + 1] += plan->lane_first[l];
  }
  for (uint32_t k = 0; whole && k < plan->stage_count; k++)
    plan->lane_stages[next[plan->stages[plan->order[k]].lane]++] = plan->order[k];
  ovl_memory_free(memory, next);
  return whole ? 0 : OVL_ENOMEM;
}

/* No more than `window` ops of each of its stages can be on a lane at once. */
static void cut_widths(ovl_plan_t *plan, const ovl_description_t *d) {
  for (uint32_t l = 0; l < d->lane_count; l++) {
    uint64_t usable = 0;
    for (uint32_t s = 0; s < d->stage_count; s++)
      usable += d->stages[s].lane == l ? d->window : 0;
    plan->lanes[l] = d->lanes[l];
    if (usable < plan->lanes[l].width)
      plan->lanes[l].width = usable > 0 ? (uint32_t)usable : 1;
  }
}

static int tables_init(ovl_plan_t *plan, const ovl_description_t *d, const ovl_memory_t *memory) {
  plan->lane_count = d->lane_count;
  plan->stage_count = d->stage_count;
  plan->window = d->window;
  plan->slots = d->slots != 0 ? d->slots : d->window;
  plan->rows = d->rows != 0 ? d->rows : d->window;
  plan->lanes = ovl_memory_array(memory, d->lane_count, sizeof *plan->lanes);
  plan->stages = ovl_memory_array(memory, d->stage_count, sizeof *plan->stages);
  if (plan->lanes == NULL || plan->stages == NULL)
    return OVL_ENOMEM;
  if (d->stage_count > 0)
    memcpy(plan->stages, d->stages, d->stage_count * sizeof *plan->stages);
  cut_widths(plan, d);
  return 0;
}

int ovl_plan_init(ovl_plan_t *plan, const ovl_description_t *d, const ovl_memory_t *memory) {
  memset(plan, 0, sizeof *plan);
  int r = tables_init(plan, d, memory);
  if (r == 0)
    r = overlap_graph_init(plan, d, memory);
  if (r == 0)
    r = order_init(plan, d->order, memory);
  if (r == 0)
    r = lane_stages_init(plan, memory);
  if (r == 0)
    r = serial_graph_init(plan, memory);
  if (r != 0)
    ovl_plan_finish(plan, memory);
  return r;
}

void ovl_plan_finish(ovl_plan_t *plan, const ovl_memory_t *memory) {
  for (int mode = 0; mode < 2; mode++) {
    edges_finish(&plan->graphs[mode].in, memory);
    edges_finish(&plan->graphs[mode].out, memory);
  }
  ovl_memory_free(memory, plan->lanes);
  ovl_memory_free(memory, plan->stages);
  ovl_memory_free(memory, plan->lane_first);
  ovl_memory_free(memory, plan->lane_stages);
  ovl_memory_free(memory, plan->order);
  memset(plan, 0, sizeof *plan);
}

void ovl_plan_find_ends(const ovl_plan_t *plan, const ovl_graph_t *graph, bool *source, bool *sink) {
  for (uint32_t s = 0; s < plan->stage_count; s++)
    source[s] = sink[s] = true;
  for (uint32_t s = 0; s < plan->stage_count; s++)
    for (uint32_t e = graph->out.first[s]; e < graph->out.first[s + 1]; e++)
      if (graph->out.edges[e].distance == 0)
        sink[s] = source[graph->out.edges[e].stage] = false;
}

/* ---- cycles ---------------------------------------------------------------------------------------- */

/* Depth first from path[0]; path holds the way to the stage in hand, next[s] the edge of s to try. */
static uint32_t walk(const ovl_edges_t *out, uint32_t to, uint32_t *path, uint32_t *next, bool *seen) {
  uint32_t depth = 1;
  seen[path[0]] = true;
  while (depth > 0) {
    uint32_t s = path[depth - 1];
    if (s == to)
      return depth;
    if (next[s] == out->first[s + 1] - out->first[s]) {
      depth--;
      continue;
    }
    ovl_edge_t edge = out->edges[out->first[s] + next[s]++];
    if (edge.distance == 0 && !seen[edge.stage]) {
      seen[edge.stage] = true;
      path[depth++] = edge.stage;
    }
  }
  return 0;
}

int ovl_plan_find_path(const ovl_description_t *d, uint32_t from, uint32_t to, const ovl_memory_t *memory,
                       uint32_t *path, uint32_t *length) {
  edge_list_t list;
  ovl_edges_t out = {0};
  uint32_t *next = ovl_memory_array(memory, d->stage_count, sizeof *next);
  bool *seen = ovl_memory_array(memory, d->stage_count, sizeof *seen);
  int r = collect_edges(d, memory, &list);
  if (r == 0)
    r = edges_init(&out, d->stage_count, &list, true, memory);
  if (r == 0 && (next == NULL || seen == NULL))
    r = OVL_ENOMEM;
  if (r == 0) {
    path[0] = from;
    *length = walk(&out, to, path, next, seen);
  }
  edges_finish(&out, memory);
  ovl_memory_free(memory, list.items);
  ovl_memory_free(memory, seen);
  ovl_memory_free(memory, next);
  return r;
}
