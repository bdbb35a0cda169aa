#include "common/watch/gpu_troubles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace busbar {
namespace {

using Kind = Trouble::Kind;

std::string gpu_name(const GpuHealth& gpu) {
  return gpu.bus_id.empty() ? fmt::format("GPU {}", gpu.index) : fmt::format("GPU {} ({})", gpu.index, gpu.bus_id);
}

/// "118" or "118 to 125", of the values that are known; empty where none is.
template <class Of>
std::string range(const std::vector<GpuHealth>& gpus, Of of) {
  double least = -1, most = -1;
  for (const GpuHealth& gpu : gpus) {
    const double value = of(gpu);
    if (value < 0) continue;
    least = least < 0 ? value : std::min(least, value);
    most = std::max(most, value);
  }
  if (most < 0) return {};
  const std::string low = fmt::format("{:.0f}", least), high = fmt::format("{:.0f}", most);
  return low == high ? low : low + " to " + high;
}

/// A GPU that waits inside a kernel for its peers is fully busy and takes little power.
std::string activity(const std::vector<GpuHealth>& gpus) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& text, std::string_view unit) {
    if (!text.empty()) parts.push_back(fmt::format("{} {}", text, unit));
  };
  add(range(gpus, [](const GpuHealth& g) { return static_cast<double>(g.busy_percent); }), "% busy");
  const std::string limit = range(gpus, [](const GpuHealth& g) { return g.power_limit_w; });
  add(range(gpus, [](const GpuHealth& g) { return g.power_w; }), limit.empty() ? "W" : "W of " + limit);
  add(range(gpus, [](const GpuHealth& g) { return static_cast<double>(g.temperature_c); }), "C");
  if (parts.empty()) return {};
  return fmt::format("{} GPU{}: {}", gpus.size(), gpus.size() == 1 ? "" : "s", fmt::join(parts, ", "));
}

}  // namespace

std::vector<Trouble> gpu_troubles(const GpusHealth& health) {
  std::vector<Trouble> troubles;
  if (!health.problem.empty()) troubles.push_back({Kind::notice, "NVML: " + health.problem});
  for (const GpuHealth& gpu : health.gpus) {
    const std::string name = gpu_name(gpu);
    if (gpu.lost) troubles.push_back({Kind::hardware, name + " is lost: it does not answer the driver"});
    if (gpu.needs_reset) troubles.push_back({Kind::hardware, name + " needs a reset"});
    if (gpu.remap_failed)
      troubles.push_back({Kind::hardware, name + ": a bad row of its memory could not be replaced"});
    if (gpu.ecc_uncorrected > 0) {
      troubles.push_back({Kind::notice, fmt::format("{}: {} uncorrected memory errors since the driver was loaded",
                                                    name, gpu.ecc_uncorrected)});
    }
    if (!gpu.slowed_by.empty()) {
      troubles.push_back({Kind::notice, fmt::format("{} is throttled by {}, at {} C", name,
                                                    fmt::join(gpu.slowed_by, " and "), gpu.temperature_c)});
    }
    if (gpu.nvlinks_up > 0 && gpu.nvlinks_down > 0) {
      troubles.push_back({Kind::notice, fmt::format("{}: {} of {} NVLinks are down", name, gpu.nvlinks_down,
                                                    gpu.nvlinks_up + gpu.nvlinks_down)});
    }
  }
  if (const std::string text = activity(health.gpus); !text.empty()) troubles.push_back({Kind::notice, text});
  return troubles;
}

std::vector<Trouble> ask_gpu_troubles() {
  constexpr std::chrono::seconds kPatience{3};
  auto answer = std::make_shared<std::promise<GpusHealth>>();
  std::future<GpusHealth> health = answer->get_future();
  std::thread([answer] { answer->set_value(ask_gpu_health()); }).detach();
  if (health.wait_for(kPatience) != std::future_status::ready) {
    return {{Kind::notice, "NVML does not answer within 3 s: the driver may wait for a GPU"}};
  }
  return gpu_troubles(health.get());
}

}  // namespace busbar
