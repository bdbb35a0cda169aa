// Would show: a table of the library's own memory (library_copies in mpi_backend.cpp) that says too little, so that a
// sweep which the memory cap allows is killed halfway.
//
// `library_temporaries_bench [MIB]...` under mpirun: what every collective takes beyond its two buffers, in copies of
// the message, the most over ranks, sizes and repetitions. The peak is reset before each call (Linux:
// /proc/self/clear_refs).

#include "common/backends/mpi/mpi_backend.h"
#include "common/base/error.h"
#include "common/machine/resources.h"
#include "common/measure/buffer_plan.h"
#include "common/processes/mpi/mpi_session.h"
#include "common/processes/session.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace busbar;

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << 5;
  if (peak_resident_bytes() > resident_bytes() + (std::int64_t{16} << 20)) {
    throw Error(ExitCode::internal,
                "the kernel does not reset the peak (clear_refs); measure one collective per process");
  }
}

/// Copies of the message that one call took, beyond what was there before it.
double copies(Backend& backend, const Comm& world, const BufferPlan& buffer_plan, bool aggregated) {
  // What earlier calls left in the heap would hide what this one needs.
  malloc_trim(0);
  reset_peak();
  const std::int64_t before = resident_bytes();
  world.barrier();
  if (aggregated) backend.group_begin(0);
  backend.enqueue(0, buffer_plan.operation(), buffer_plan.lane_buffers(0, 0));
  if (aggregated) backend.group_end(0);
  const std::int64_t taken = peak_resident_bytes() - before;
  return static_cast<double>(taken) / static_cast<double>(buffer_plan.message_bytes());
}

Case make_case(const Collective& c, const Traffic& traffic, std::size_t nbytes, int nranks) {
  constexpr std::size_t kWidth = sizeof(float);
  Case made;
  if (c.has_op) made.op = Op::sum;
  made.requested_bytes = nbytes;
  made.problem = {c.count(nbytes / kWidth, nranks, kWidth, &traffic), kWidth, nranks, 0, &traffic};
  made.nbytes = message_bytes(c, made.problem);
  return made;
}

/// The most over ranks and three repetitions.
double most_copies(Backend& backend, const Comm& world, const BufferPlan& buffer_plan, bool aggregated) {
  double most = 0;
  for (int repeat = 0; repeat < 3; ++repeat) most = std::max(most, copies(backend, world, buffer_plan, aggregated));
  return world.max(most);
}

/// Out of place, in place, and the same through the nonblocking calls of -m; "-" where there is no such form.
std::string measure_size(Backend& backend, const Comm& world, const Arena& arena, const Collective& c,
                         std::size_t nbytes) {
  const Traffic traffic;
  const Case row_case = make_case(c, traffic, nbytes, world.size());
  if (!c.moves_data) return "   -    -    -    -";
  if (c.why_not != nullptr && !c.why_not(row_case.problem).empty()) return "   -    -    -    -";
  std::string text;
  for (const bool aggregated : {false, true}) {
    for (const bool in_place : {false, true}) {
      if (in_place && c.in_place == nullptr) {
        text += "   - ";
        continue;
      }
      const BufferPlan buffer_plan(backend, arena, c, row_case, in_place, 0, 1);
      text += fmt::format("{:5.2f}", most_copies(backend, world, buffer_plan, aggregated));
    }
  }
  return text;
}

void measure(const Comm& world, const std::vector<std::size_t>& sizes) {
  const std::unique_ptr<Backend> backend = make_mpi_backend(world, world.size());
  const Arena arena(*backend, *std::max_element(sizes.begin(), sizes.end()), 0);
  // Connections and pools come with the first calls and do not grow with the message.
  for (const CollectiveId id : kAllCollectives) {
    measure_size(*backend, world, arena, collective(id), std::min(sizes.front(), std::size_t{1} << 20));
  }
  if (world.rank() == 0) {
    fmt::print(
        "{}, {} ranks, float sum: copies of a message that the library takes\n"
        "(out of place, in place, the same with -m)\n",
        mpi_library_version(), world.size());
  }
  for (const CollectiveId id : kAllCollectives) {
    std::string line = fmt::format("{:<15}", collective(id).name);
    for (const std::size_t nbytes : sizes) {
      line += fmt::format("  {:4} MiB:{}", nbytes >> 20, measure_size(*backend, world, arena, collective(id), nbytes));
    }
    if (world.rank() == 0) {
      fmt::print("{}\n", line);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);  // every large block goes back at once, so that the next call's shows again
  const Session session(&argc, &argv);
  std::vector<std::size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10) << 20);
  if (sizes.empty()) sizes = {std::size_t{64} << 20, std::size_t{256} << 20};
  try {
    measure(session.world(), sizes);
  } catch (const std::exception& e) {
    fmt::print(stderr, "library_temporaries_bench: {}\n", e.what());
    session.world().end_job(ExitCode::internal);
  }
  return 0;
}
