#include "common/backends/nccl/gpu_memory.h"

#include "common/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {

Backend::MemoryLimit gpu_memory_limit(std::size_t free_bytes, std::size_t total_bytes, int sharers) {
  constexpr std::size_t kGiB = std::size_t{1} << 30;
  // nccl-tests' reserve: 1 GiB for each 16 GiB installed, at most 4: buffers that NCCL connects on first use, graphs.
  const std::size_t installed_steps = (total_bytes + 16 * kGiB - 1) / (16 * kGiB);
  const std::size_t reserve = std::min(installed_steps * kGiB, 4 * kGiB);
  const std::size_t left = free_bytes > reserve ? free_bytes - reserve : 0;
  const std::size_t share = left / static_cast<std::size_t>(sharers);
  std::string text = fmt::format("GPU memory: {} free - {} reserve", format_bytes(free_bytes), format_bytes(reserve));
  if (sharers > 1) text = fmt::format("({}) / {} ranks per GPU", text, sharers);
  return {share, fmt::format("{} = {} per rank", text, format_bytes(share))};
}

}  // namespace busbar
