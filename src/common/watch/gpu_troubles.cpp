#include "common/watch/gpu_troubles.h"

#include "common/machine/answer_within.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace busbar {
namespace {

using Kind = Trouble::Kind;

std::string gpu_name(const GpuFacts& gpu) {
  return gpu.bus_id.empty() ? fmt::format("GPU {}", gpu.index) : fmt::format("GPU {} ({})", gpu.index, gpu.bus_id);
}

/// "118" or "118 to 125", of the values that are known; empty where none is.
template <class Of>
std::string range(const std::vector<GpuFacts>& gpus, Of of) {
  std::optional<double> least, most;
  for (const GpuFacts& gpu : gpus) {
    const std::optional<double> value = of(gpu);
    if (!value) continue;
    least = std::min(least.value_or(*value), *value);
    most = std::max(most.value_or(*value), *value);
  }
  if (!most) return {};
  const std::string low = fmt::format("{:.0f}", *least), high = fmt::format("{:.0f}", *most);
  return low == high ? low : low + " to " + high;
}

/// A GPU that waits inside a kernel for its peers is fully busy and takes little power.
std::string activity(const std::vector<GpuFacts>& gpus) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& text, std::string_view unit) {
    if (!text.empty()) parts.push_back(fmt::format("{} {}", text, unit));
  };
  add(range(gpus, [](const GpuFacts& g) { return g.busy_percent; }), "% busy");
  const std::string limit = range(gpus, [](const GpuFacts& g) { return g.power_limit_w; });
  add(range(gpus, [](const GpuFacts& g) { return g.power_w; }), limit.empty() ? "W" : "W of " + limit);
  add(range(gpus, [](const GpuFacts& g) { return g.temperature_c; }), "C");
  if (parts.empty()) return {};
  return fmt::format("{} GPU{}: {}", gpus.size(), gpus.size() == 1 ? "" : "s", fmt::join(parts, ", "));
}

}  // namespace

std::vector<Trouble> gpu_troubles(const HostGpus& health) {
  std::vector<Trouble> troubles;
  if (!health.problem.empty()) troubles.push_back({Kind::notice, "NVML: " + health.problem});
  for (const GpuFacts& gpu : health.gpus) {
    const std::string name = gpu_name(gpu);
    const auto add = [&](Kind kind, std::string text, bool slows = false) {
      troubles.push_back({.kind = kind, .text = std::move(text), .slows = slows, .on_gpu = true});
    };
    if (gpu.lost) add(Kind::hardware, name + " is lost: it does not answer the driver");
    if (gpu.needs_reset) add(Kind::hardware, name + " needs a reset");
    if (gpu.remap_failed) add(Kind::hardware, name + ": a bad row of its memory could not be replaced");
    if (gpu.ecc_uncorrected.value_or(0) > 0) {
      add(Kind::notice,
          fmt::format("{}: {} uncorrected memory errors since the driver was loaded", name, *gpu.ecc_uncorrected));
    }
    if (const auto words = slowdown_words(gpu.clock_reasons.value_or(0)); !words.empty()) {
      add(Kind::notice,
          fmt::format("{} is throttled by {}, at {} C", name, fmt::join(words, " and "),
                      gpu.temperature_c.value_or(-1)),
          true);
    }
    const auto down =
        std::count_if(gpu.nvlinks.begin(), gpu.nvlinks.end(), [](const NvLink& link) { return !link.active; });
    if (down > 0 && down < std::ssize(gpu.nvlinks)) {
      add(Kind::notice, fmt::format("{}: {} of {} NVLinks are down", name, down, gpu.nvlinks.size()));
    }
  }
  if (const std::string text = activity(health.gpus); !text.empty()) troubles.push_back({Kind::notice, text});
  return troubles;
}

std::vector<Trouble> ask_gpu_troubles() {
  constexpr double kPatience = 3;  // [s]
  if (const auto health = answer_within(kPatience, [] { return read_gpu_health(); })) return gpu_troubles(*health);
  return {{Kind::notice, "NVML does not answer within 3 s: the driver may wait for a GPU"}};
}

}  // namespace busbar
