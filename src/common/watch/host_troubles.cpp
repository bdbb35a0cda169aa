#include "common/base/units.h"
#include "common/machine/answer_within.h"
#include "common/machine/cgroup.h"
#include "common/machine/error_counters.h"
#include "common/machine/kernel_log.h"
#include "common/machine/memory.h"
#include "common/watch/local_evidence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

namespace busbar {
namespace {

namespace fs = std::filesystem;
using Counters = std::map<std::string, std::uint64_t>;
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

/// Asks NVML in a thread of its own and waits 3 s at most: a driver whose GPU fell off the bus may never answer.
std::vector<Trouble> ask_gpu_troubles() {
  constexpr double kPatience = 3;  // [s]
  if (const auto health = answer_within(kPatience, [] { return read_gpu_health(); })) return gpu_troubles(*health);
  return {{Kind::notice, "NVML does not answer within 3 s: the driver may wait for a GPU"}};
}

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('/') + 1); }
std::string_view first_parts(std::string_view name) { return name.substr(0, name.rfind('/')); }

std::uint64_t value_of(const Counters& counters, const std::string& name) {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second;
}

/// By how much a counter moved; 0 where it was not known before.
std::uint64_t moved(const Counters& before, const Counters& now, const std::string& name) {
  const auto found = before.find(name);
  if (found == before.end()) return 0;
  const std::uint64_t value = value_of(now, name);
  return value > found->second ? value - found->second : 0;
}

/// A port without a cable is down all its life and harms nobody; one that was up once is another matter.
void look_at_links(std::vector<Trouble>& troubles, const Counters& before, const Counters& now, const fs::path& root) {
  for (const auto& [name, value] : now) {
    if (last_part(name) != kDown || value == 0) continue;
    const std::string link(first_parts(name));
    const bool infiniband = link.find('/') != std::string::npos;
    std::error_code ignored;
    // Bridges of containers and machines lose their carrier whenever the last of these ends.
    if (!infiniband && fs::exists(root / "sys/class/net" / link / "bridge", ignored)) continue;
    const std::uint64_t lost = value_of(now, link + (infiniband ? "/link_downed" : "/carrier_down_count"));
    const bool was_up = lost > 0 || (before.contains(name) && before.at(name) == 0);
    const std::string text =
        infiniband ? fmt::format("{} port {} is DOWN", first_parts(link), last_part(link)) : link + " is down";
    if (was_up) {
      troubles.push_back({Kind::hardware, text + ", it was up before"});
    } else if (infiniband) {
      troubles.push_back({Kind::notice, text + ", since the host started"});
    }
  }
}

void look_at_counters(std::vector<Trouble>& troubles, const Counters& before, const Counters& now) {
  for (const auto& [name, value] : now) {
    if (name == kKernelSequence || last_part(name) == kDown) continue;
    const std::uint64_t more = moved(before, now, name);
    if (more == 0) continue;
    if (name == kOomKills) {
      troubles.push_back(
          {Kind::resource, fmt::format("the kernel killed {} process{} for lack of memory during the job", more,
                                       more == 1 ? "" : "es")});
    } else if (name == kThrottledMs) {
      if (more >= 1000) {
        troubles.push_back({.kind = Kind::notice,
                            .text = fmt::format("CPU starved: a quota held processes back for {:.0f} s during the job",
                                                static_cast<double>(more) / 1e3),
                            .slows = true});
      }
    } else if (name == kRetransmitted) {
      if (more >= 20)
        troubles.push_back({Kind::notice, fmt::format("TCP sent {} segments again during the job", more)});
    } else if (last_part(name) == "link_downed" && value_of(now, std::string(first_parts(name)) + "/down") == 0) {
      const std::string_view port = first_parts(name);
      troubles.push_back({Kind::hardware, fmt::format("{} port {} went down {} time{} during the job",
                                                      first_parts(port), last_part(port), more, more == 1 ? "" : "s")});
    } else {
      troubles.push_back({Kind::notice, fmt::format("{} grew by {} during the job", name, more)});
    }
  }
}

void look_at_shared_memory(std::vector<Trouble>& troubles, const fs::path& root) {
  struct statvfs facts {};
  if (statvfs((root / "dev/shm").c_str(), &facts) != 0 || facts.f_blocks == 0) return;
  const std::uint64_t free = static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
  const std::uint64_t size = static_cast<std::uint64_t>(facts.f_blocks) * facts.f_frsize;
  constexpr std::uint64_t kLeast = 1 << 20;
  constexpr std::uint64_t kTiny = 64 << 20;  // what container runtimes give by default
  if (free < kLeast) {
    troubles.push_back(
        {Kind::resource, fmt::format("/dev/shm is full: {} of {} are free", format_bytes(free), format_bytes(size))});
  } else if (size <= kTiny) {
    troubles.push_back(
        {Kind::notice, fmt::format("/dev/shm is small: {}, {} free", format_bytes(size), format_bytes(free))});
  }
}

void look_at_memory(std::vector<Trouble>& troubles, const fs::path& root) {
  const HostMemory memory = free_host_memory(root);
  constexpr std::uint64_t kLeast = 64 << 20;
  if (memory.free_bytes >= kLeast) return;
  troubles.push_back({Kind::resource, fmt::format("memory is used up: {} are left ({})",
                                                  format_bytes(memory.free_bytes), memory.source)});
}

void look_at_files(std::vector<Trouble>& troubles, const fs::path& root) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  std::error_code error;
  std::uint64_t open = 0;
  for (fs::directory_iterator it(root / "proc/self/fd", error), end; !error && it != end; it.increment(error)) ++open;
  if (open + 8 < limit.rlim_cur) return;
  troubles.push_back({Kind::resource, fmt::format("file descriptors are used up: {} of {}", open, limit.rlim_cur)});
}

/// What the kernel wrote since `before`; without one nothing, because its log may be years old.
void look_at_kernel(std::vector<Trouble>& troubles, const Counters& before, const fs::path& root) {
  const auto from = before.find(std::string(kKernelSequence));
  if (from == before.end()) return;
  constexpr std::size_t kMost = 16;
  for (const KernelLine& line : kernel_lines(from->second, root)) {
    const std::string text = "[0.0] " + line.text;  // as dmesg prints it
    const std::optional<KernelMessage> message = parse_kernel_line(text);
    if (!message || troubles.size() >= kMost) continue;
    const KernelEvent& event = message->event;
    // A link that is down for good is found by its state; one that came back may have done no harm.
    const bool hardware =
        event.what == KernelEvent::What::aer || (event.what == KernelEvent::What::xid && is_hardware_xid(event.number));
    const bool memory = event.what == KernelEvent::What::out_of_memory;
    const Kind kind = hardware ? Kind::hardware : memory ? Kind::resource : Kind::notice;
    troubles.push_back({.kind = kind,
                        .text = fmt::format("kernel: {}", line.text.substr(0, 200)),
                        .on_gpu = event.what == KernelEvent::What::xid});
  }
}

template <class Look>
void try_to(Look&& look) {
  try {
    look();
  } catch (const std::exception&) {
    // What cannot be looked at is no trouble.
  }
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

std::vector<Trouble> host_troubles(const Counters& counters_before, const fs::path& root) {
  std::vector<Trouble> troubles;
  Counters now;
  try_to([&] { now = error_counters(root); });
  try_to([&] { look_at_links(troubles, counters_before, now, root); });
  try_to([&] { look_at_counters(troubles, counters_before, now); });
  try_to([&] { look_at_shared_memory(troubles, root); });
  try_to([&] { look_at_memory(troubles, root); });
  try_to([&] { look_at_files(troubles, root); });
  try_to([&] { look_at_kernel(troubles, counters_before, root); });
  try_to([&] {
    if (root != "/") return;  // NVML knows this machine only
    const std::vector<Trouble> gpus = ask_gpu_troubles();
    troubles.insert(troubles.end(), gpus.begin(), gpus.end());
  });
  return troubles;
}

}  // namespace busbar
