// SPDX-License-Identifier: MIT
// oneTBB's parallel_pipeline: a serial_in_order filter for each stage, as many tokens as the window is wide.
// Stages that share a lane lock its mutex, since a filter is serial with itself alone.
#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/task_arena.h>

#include <mutex>
#include <vector>

#include "bench_clock.h"
#include "bench_system.h"

namespace {

using tbb::filter;
using tbb::filter_mode;

struct lane_locks {
  std::vector<std::mutex> mutexes;
  explicit lane_locks(const bench_work_t &work) : mutexes(work.stages > work.lanes ? work.lanes : 0) {}
};

void run_op(const bench_work_t &work, lane_locks &locks, std::uint64_t microbatch, std::uint32_t stage) {
  std::unique_lock<std::mutex> lock;
  if (!locks.mutexes.empty())
    lock = std::unique_lock<std::mutex>(locks.mutexes[bench_lane_of(&work, stage)]);
  bench_op(&work, microbatch, stage);
}

filter<void, std::uint64_t> first_stage(const bench_work_t &work, lane_locks &locks, std::uint64_t &next) {
  return tbb::make_filter<void, std::uint64_t>(filter_mode::serial_in_order,
                                               [&](tbb::flow_control &control) -> std::uint64_t {
                                                 if (next == work.microbatches) {
                                                   control.stop();
                                                   return 0;
                                                 }
                                                 run_op(work, locks, next, 0);
                                                 return next++;
                                               });
}

filter<std::uint64_t, std::uint64_t> stage_between(const bench_work_t &work, lane_locks &locks,
                                                   std::uint32_t stage) {
  return tbb::make_filter<std::uint64_t, std::uint64_t>(filter_mode::serial_in_order,
                                                        [&, stage](std::uint64_t i) {
                                                          run_op(work, locks, i, stage);
                                                          return i;
                                                        });
}

filter<std::uint64_t, void> last_stage(const bench_work_t &work, lane_locks &locks) {
  return tbb::make_filter<std::uint64_t, void>(
      filter_mode::serial_in_order, [&](std::uint64_t i) { run_op(work, locks, i, work.stages - 1); });
}

// The arena's threads stay with TBB between runs.
std::uint64_t run_tbb(const bench_work_t *work) {
  lane_locks locks(*work);
  std::uint64_t next = 0;
  filter<void, std::uint64_t> chain = first_stage(*work, locks, next);
  for (std::uint32_t stage = 1; stage + 1 < work->stages; stage++)
    chain = chain & stage_between(*work, locks, stage);
  filter<void, void> whole = chain & last_stage(*work, locks);
  tbb::task_arena arena(static_cast<int>(bench_threads(work)));
  arena.initialize();
  std::uint64_t begun_ns = bench_now_ns();
  arena.execute([&] { tbb::parallel_pipeline(work->window, whole); });
  return bench_now_ns() - begun_ns;
}

} // namespace

extern "C" const bench_system_t bench_system_tbb = {
    "tbb",   "oneTBB parallel_pipeline: serial_in_order filters, as many tokens as the window",
    true,    nullptr,
    nullptr, run_tbb,
};
