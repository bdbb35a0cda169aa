#include "common/backends/host_memory_backend.h"

#include "common/base/error.h"
#include "common/base/text.h"
#include "common/machine/resources.h"
#include "common/processes/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace busbar {

HostMemoryBackend::HostMemoryBackend(const Comm& group, int ranks_on_host)
    : ranks_on_host_(ranks_on_host), nranks_(group.size()), locals_{group.rank()}, start_bytes_(resident_bytes()) {}

void HostMemoryBackend::created(Clock::duration took, std::int64_t resident_before) {
  creation_s_ = seconds(took);
  start_bytes_ = resident_before;
  library_bytes_ = std::max<std::int64_t>(resident_bytes() - resident_before, 0);
}

DeviceInfo HostMemoryBackend::device(int /*local*/) const { return {0, binding_text(), std::string(kHostMemory)}; }

InPlaceOffsets HostMemoryBackend::in_place_offsets(const Operation& op, int rank) const {
  if (op.op) return {};
  return op.collective->in_place(op.problem, rank);
}

Backend::MemoryLimit HostMemoryBackend::limit_with(double copies, std::string_view library) const {
  const HostMemory memory = free_host_memory();
  // 0.8: leaves room for other processes and the page cache.
  const double share = 0.8 * static_cast<double>(memory.free_bytes) / ranks_on_host_;
  std::string arithmetic =
      fmt::format("{:.1f} GiB free ({}) x 0.8 / {} on this host", static_cast<double>(memory.free_bytes) / (1 << 30),
                  memory.source, counted(ranks_on_host_, "rank"));
  if (copies > 0) {
    arithmetic += fmt::format(" x 2 / {}, because {} itself may allocate up to {} x the buffer size", 2 + copies,
                              library, copies);
  }
  return {static_cast<std::size_t>(2 * share / (2 + copies)), std::move(arithmetic)};
}

void* HostMemoryBackend::allocate(int /*local*/, std::size_t nbytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t rounded = (nbytes + kPage - 1) / kPage * kPage;
  void* memory = std::aligned_alloc(kPage, rounded);
  if (memory == nullptr) throw_not_possible(fmt::format("no memory for a buffer of {} bytes; lower -e", nbytes));
  std::memset(memory, 0, rounded);
  buffer_bytes_ += static_cast<std::int64_t>(rounded);
  return memory;
}

CheckResult HostMemoryBackend::check(int /*local*/, const Pattern& pattern, std::span<const Block> blocks,
                                     const void* recv) {
  CheckResult result;
  for (const Block& block : blocks) result.merge(busbar::check(pattern, block, recv));
  return result;
}

void HostMemoryBackend::reserve_marks(int /*lane*/, int last) {
  marks_.resize(std::max(marks_.size(), static_cast<std::size_t>(last) + 1));
}

double HostMemoryBackend::between(int /*lane*/, int from, int to) { return seconds(marks_[to] - marks_[from]); }

std::vector<Backend::MemoryUse> HostMemoryBackend::memory_use() const {
  const std::int64_t rest = peak_resident_bytes() - start_bytes_ - buffer_bytes_ - library_bytes_;
  return {{"Initialization", library_bytes_},
          {"User-Allocated", buffer_bytes_},
          {"Collective", std::max<std::int64_t>(rest, 0)}};
}

void refuse_gpu_options(const Config& config, const BackendTraits& traits, int nprocesses, Carrier carrier) {
  const char* option = config.cudagraph > 0               ? "-G/--cudagraph"
                       : config.device_implementation > 0 ? "-D/--device_implementation"
                       : config.local_register > 0        ? "-R/--local_register"
                       : config.cta_policy                ? "-x/--cta_policy"
                       : config.stream_null               ? "-y/--stream_null"
                       : config.parallel_init             ? "-p/--parallel_init"
                       : config.ranks_per_gpu > 1         ? "--ranks-per-gpu"
                                                          : nullptr;
  if (option != nullptr) {
    throw_not_possible(
        fmt::format("{} is for GPUs, and the {} backend measures host memory: leave it out, or use --backend nccl on a "
                    "machine with GPUs",
                    option, traits.name));
  }
  const int per_process = config.nthreads * config.ngpus;
  if (per_process == 1) return;
  const long long nranks = static_cast<long long>(nprocesses) * per_process;
  throw_not_possible(fmt::format("the {} backend runs one rank per process: instead of -t {} -g {}, {}", traits.name,
                                 config.nthreads, config.ngpus,
                                 carrier == Carrier::mpi
                                     ? fmt::format("use mpirun -n {}", nranks)
                                     : fmt::format("start {} processes (WORLD_SIZE={})", nranks, nranks)));
}

void check_host_options(const Comm& world, const Config& config, const BackendTraits& traits) {
  collectively(world, "checking the options",
               [&] { refuse_gpu_options(config, traits, world.size(), world.carrier()); });
}

}  // namespace busbar
