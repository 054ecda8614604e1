/* SPDX-License-Identifier: MIT */
/* Graphs: replayed, and compared with each other and with works that were put on streams. */
#include <stdlib.h>

#include "support/cuda_stand_in/machine.h"

/* ---- as CUDA's calls --------------------------------------------------------------------------------------------- */

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  cudaError_t code = call_begin();
  free(graph);
  machine.held--;
  return call_end(code);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  cudaError_t code = call_begin();
  *exec = malloc(sizeof **exec);
  insist(*exec != NULL);
  (*exec)->own_priorities = (flags & cudaGraphInstantiateFlagUseNodePriority) != 0;
  (*exec)->graph = *graph;
  machine.held++;
  return call_end(code);
}

/* All of it comes after what is on the stream, and what comes next there after all of it. */
static cudaError_t launch(const struct CUgraphExec_st *exec, cudaStream_t stream) {
  const struct CUgraph_st *graph = &exec->graph;
  uint32_t nodes[GRAPH_NODES];
  if (stream == NULL)
    return cudaErrorInvalidResourceHandle;
  if (stream->capture != NULL)
    return cudaErrorStreamCaptureUnsupported;
  deps_t from = deps_of_next(stream), to = from;
  bool last[GRAPH_NODES];
  for (uint32_t n = 0; n < graph->count; n++) {
    deps_t deps = from;
    for (uint32_t d = 0; d < graph->nodes[n].deps.count; d++) {
      deps_add(&deps, nodes[graph->nodes[n].deps.at[d]]);
      last[graph->nodes[n].deps.at[d]] = false;
    }
    place_t place = graph->nodes[n].place;
    if (!exec->own_priorities)
      place.priority = stream->place.priority;
    nodes[n] = put_node(&place, &deps, &graph->nodes[n].work);
    last[n] = true;
  }
  for (uint32_t n = 0; n < graph->count; n++)
    if (last[n])
      deps_add(&to, nodes[n]);
  deps_set(&stream->tail, put_node(&stream->place, &to, NULL));
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  cudaError_t code = call_begin();
  return call_end(code != cudaSuccess ? code : launch(exec, stream_of(stream)));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  cudaError_t code = call_begin();
  free(exec);
  machine.held--;
  return call_end(code);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

uint32_t stand_in_graph_nodes(cudaGraph_t graph) { return graph->count; }

uint64_t stand_in_graph_shape(cudaGraph_t graph) {
  uint64_t sum = graph->count;
  for (uint32_t n = 0; n < graph->count; n++) {
    sum = mix(sum, graph->nodes[n].work.label);
    for (uint32_t d = 0; d < graph->nodes[n].deps.count; d++)
      sum = mix(sum, graph->nodes[n].deps.at[d]);
  }
  return sum;
}

/* Which nodes come before that one. */
static void find_before(const struct CUgraph_st *graph, uint32_t node, bool *before) {
  for (uint32_t n = 0; n < graph->count; n++)
    before[n] = n == node;
  for (uint32_t n = node + 1; n-- > 0;)
    for (uint32_t d = 0; before[n] && d < graph->nodes[n].deps.count; d++)
      before[graph->nodes[n].deps.at[d]] = true;
}

static const node_t *node_of_work(uint32_t work) {
  uint32_t n = 0;
  while (machine.nodes[n].work != work + 1)
    n++;
  return &machine.nodes[n];
}

uint32_t stand_in_graph_differs(cudaGraph_t graph, uint32_t first) {
  uint32_t differences = 0;
  bool before[GRAPH_NODES];
  insist(first + graph->count <= machine.work_count);
  for (uint32_t n = 0; n < graph->count; n++) {
    const node_t *node = node_of_work(first + n);
    find_before(graph, n, before);
    differences += graph->nodes[n].work.label != work_of(node)->label;
    for (uint32_t other = 0; other < n; other++)
      differences += before[other] != comes_after(node, first + other);
  }
  return differences;
}
