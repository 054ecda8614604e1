// SPDX-License-Identifier: MIT
// oneTBB's flow graph: a serial node for each lane, which queues what comes while it is busy. An operation
// sends the next one to the node of that one's lane; the last one of a microbatch sends the first of another.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/task_arena.h>

#include <memory>
#include <vector>

#include "bench_clock.h"
#include "bench_system.h"

namespace {

using tbb::flow::continue_msg;

struct op {
  std::uint64_t microbatch;
  std::uint32_t stage;
};

using lane_node = tbb::flow::function_node<op, continue_msg, tbb::flow::queueing>;

class network {
public:
  explicit network(const bench_work_t &given) : work(given) {
    for (std::uint32_t l = 0; l < work.lanes; l++)
      lanes.push_back(std::make_unique<lane_node>(graph, tbb::flow::serial, [this](const op &o) {
        run_op(o);
        return continue_msg();
      }));
  }

  void run() {
    for (std::uint64_t i = 0; i < work.window && i < work.microbatches; i++)
      send({i, 0});
    graph.wait_for_all();
  }

private:
  const bench_work_t &work;
  tbb::flow::graph graph;
  std::vector<std::unique_ptr<lane_node>> lanes;

  void send(const op &o) { lanes[bench_lane_of(&work, o.stage)]->try_put(o); }

  // Microbatches end in order, so the one that takes the slot is `window` later.
  void run_op(const op &o) {
    bench_op(&work, o.microbatch, o.stage);
    if (o.stage + 1 < work.stages)
      send({o.microbatch, o.stage + 1});
    else if (o.microbatch + work.window < work.microbatches)
      send({o.microbatch + work.window, 0});
  }
};

std::uint64_t run_flow(const bench_work_t *work) {
  std::uint64_t elapsed_ns = 0;
  tbb::task_arena arena(static_cast<int>(bench_threads(work)));
  arena.execute([&] {
    network net(*work);
    std::uint64_t begun_ns = bench_now_ns();
    net.run();
    elapsed_ns = bench_now_ns() - begun_ns;
  });
  return elapsed_ns;
}

} // namespace

extern "C" const bench_system_t bench_system_tbb_flow = {
    "tbb-flow", "oneTBB flow graph: a serial queueing function_node for each lane", true, nullptr, nullptr,
    run_flow,
};
