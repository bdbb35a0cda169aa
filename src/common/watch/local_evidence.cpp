#include "common/watch/local_evidence.h"

#include "common/base/text.h"
#include "common/base/units.h"
#include "common/machine/error_counters.h"
#include "common/machine/kernel_log.h"
#include "common/machine/machine_facts.h"
#include "common/machine/resources.h"
#include "common/machine/tcp_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <utility>

namespace busbar {
namespace {

/// When a process started, of the fields of its stat file [clock ticks since the host started].
std::optional<std::uint64_t> start_of(const std::vector<std::string_view>& stat) {
  constexpr std::size_t kStart = 22 - 3;  // stat_fields() begins with field 3
  return stat.size() > kStart ? leading_number<std::uint64_t>(stat[kStart]) : std::nullopt;
}

using Counters = std::map<std::string, std::uint64_t>;
using Kind = Trouble::Kind;

/// "118" or "118 to 125", of the known values; empty if none is known.
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

/// A GPU that waits inside a kernel for its peers is fully busy and draws little power.
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

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('/') + 1); }
std::string_view first_parts(std::string_view name) { return name.substr(0, name.rfind('/')); }

std::uint64_t value_of(const Counters& counters, const std::string& name, std::uint64_t otherwise = 0) {
  const auto found = counters.find(name);
  return found == counters.end() ? otherwise : found->second;
}

/// A port without a cable is always down and harms nobody; a port that was up before does.
void look_at_links(std::vector<Trouble>& troubles, const Counters& before, const Counters& now, const Probe& probe) {
  for (const auto& [name, value] : now) {
    if (last_part(name) != kDown || value == 0) continue;
    const std::string link(first_parts(name));
    const bool infiniband = link.find('/') != std::string::npos;
    // Bridges of containers and virtual machines lose their carrier whenever the last of these ends.
    if (!infiniband && probe.exists("/sys/class/net/" + link + "/bridge")) continue;
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
    const std::uint64_t earlier = value_of(before, name, value);
    if (value <= earlier) continue;
    const std::uint64_t more = value - earlier;
    if (name == kOomKills) {
      troubles.push_back(
          {Kind::resource, fmt::format("the kernel killed {} process{} for lack of memory during the job", more,
                                       more == 1 ? "" : "es")});
    } else if (name == kThrottledMs) {
      if (more >= 1000) {
        troubles.push_back({.kind = Kind::notice,
                            .text = fmt::format("CPU starved: a quota throttled processes for {:.0f} s during the job",
                                                static_cast<double>(more) / 1e3),
                            .slows = true});
      }
    } else if (name == kRetransmitted) {
      if (more >= 20)
        troubles.push_back({Kind::notice, fmt::format("TCP retransmitted {} segments during the job", more)});
    } else if (last_part(name) == "link_downed" && value_of(now, std::string(first_parts(name)) + "/down") == 0) {
      const std::string_view port = first_parts(name);
      troubles.push_back({Kind::hardware, fmt::format("{} port {} went down {} during the job", first_parts(port),
                                                      last_part(port), counted(more, "time"))});
    } else {
      troubles.push_back({Kind::notice, fmt::format("{} grew by {} during the job", name, more)});
    }
  }
}

void look_at_shared_memory(std::vector<Trouble>& troubles, const Probe& probe) {
  struct statvfs facts {};
  if (statvfs((probe.root + "/dev/shm").c_str(), &facts) != 0 || facts.f_blocks == 0) return;
  const std::uint64_t free = static_cast<std::uint64_t>(facts.f_bavail) * facts.f_frsize;
  const std::uint64_t size = static_cast<std::uint64_t>(facts.f_blocks) * facts.f_frsize;
  constexpr std::uint64_t kLeast = 1 << 20;
  constexpr std::uint64_t kTiny = 64 << 20;  // the default of container runtimes
  if (free < kLeast) {
    troubles.push_back(
        {Kind::resource, fmt::format("/dev/shm is full: {} of {} are free", format_bytes(free), format_bytes(size))});
  } else if (size <= kTiny) {
    troubles.push_back(
        {Kind::notice, fmt::format("/dev/shm is small: {}, {} free", format_bytes(size), format_bytes(free))});
  }
}

void look_at_memory(std::vector<Trouble>& troubles, const Probe& probe) {
  const HostMemory memory = free_host_memory(probe);
  constexpr std::uint64_t kLeast = 64 << 20;
  if (memory.free_bytes >= kLeast) return;
  troubles.push_back({Kind::resource, fmt::format("memory is used up: {} are left ({})",
                                                  format_bytes(memory.free_bytes), memory.source)});
}

void look_at_files(std::vector<Trouble>& troubles, const Probe& probe) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const std::size_t open = probe.list("/proc/self/fd").size();
  if (open + 8 < limit.rlim_cur) return;
  troubles.push_back({Kind::resource, fmt::format("file descriptors are used up: {} of {}", open, limit.rlim_cur)});
}

/// What the kernel wrote since `before`. Without `before` nothing, because its log may be years old.
void look_at_kernel(std::vector<Trouble>& troubles, const Counters& before, const Probe& probe) {
  const auto from = before.find(std::string(kKernelSequence));
  if (from == before.end()) return;
  constexpr std::size_t kMost = 16;
  for (const KernelLine& line : kernel_lines(from->second, probe.root)) {
    const std::string text = "[0.0] " + line.text;  // as dmesg prints it
    const std::optional<KernelMessage> message = parse_kernel_line(text);
    if (!message || troubles.size() >= kMost) continue;
    const KernelEvent& event = message->event;
    // A link that stays down is found by its state; one that came back may have done no harm.
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
    // What cannot be read is no trouble.
  }
}

}  // namespace

std::uint64_t process_start(std::int64_t pid) noexcept try {
  const std::string text = Probe().read(fmt::format("/proc/{}/stat", pid)).value_or("");
  return start_of(stat_fields(text)).value_or(0);
} catch (...) {
  return 0;
}

std::uint64_t own_pid_namespace() noexcept try { return namespace_of({}, "/proc/self", "pid"); } catch (...) {
  return 0;
}

ProcessState process_state(const FlightState& flight, const Probe& probe) {
  ProcessState process;
  if (flight.pid <= 0) return process;
  if (flight.pid_namespace != 0 && flight.pid_namespace != own_pid_namespace()) return process;
  const std::string folder = fmt::format("/proc/{}", flight.pid);
  const std::optional<std::string> text = probe.read(folder + "/stat");
  if (!text) {
    // Gone, but only if /proc is mounted and shows processes at all.
    if (!probe.exists(folder) && probe.read("/proc/self/stat")) process.life = ProcessState::Life::gone;
    return process;
  }
  const std::vector<std::string_view> stat = stat_fields(*text);
  const std::optional<std::uint64_t> start = start_of(stat);
  if (!start) return process;
  if (flight.pid_start != 0 && *start != flight.pid_start) {
    process.life = ProcessState::Life::gone;  // another process has its pid now
    return process;
  }
  process.state = stat[0].front();
  const bool dead = process.state == 'Z' || process.state == 'X' || process.state == 'x';
  process.life = dead ? ProcessState::Life::gone : ProcessState::Life::alive;
  const std::string status = probe.read(folder + "/status").value_or("");
  process.tracer = leading_number<std::uint32_t>(field_of(status, "TracerPid").value_or("")).value_or(0);
  process.wchan = wchan_of(probe, folder);
  return process;
}

std::vector<TcpConnection> parse_established(std::string_view text) {
  constexpr int kAgain = 2;  // the kernel waits 0.2 s, then twice as long each time: at least 0.6 s
  std::vector<TcpConnection> established;
  for (const TcpSocket& one : parse_tcp_table(text)) {
    if (one.state != TcpState::established) continue;
    established.push_back({one.remote, one.unsent > 0 && one.retransmits >= kAgain, one.uid, one.inode});
  }
  return established;
}

std::vector<TcpConnection> established_connections(const Probe& probe) {
  std::vector<TcpConnection> all;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"})
    std::ranges::move(parse_established(probe.read(table, kLongFile).value_or("")), std::back_inserter(all));
  return all;
}

std::set<std::uint64_t> socket_inodes(std::int64_t pid, const Probe& probe) {
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  std::set<std::uint64_t> inodes;
  for (const std::string& fd : probe.list(folder))
    if (const auto inode = socket_inode(probe.link_text(folder + "/" + fd).value_or(""))) inodes.insert(*inode);
  return inodes;
}

std::vector<Trouble> gpu_troubles(const HostGpus& health) {
  std::vector<Trouble> troubles;
  if (health.library && !health.problem.empty()) troubles.push_back({Kind::notice, health.problem});
  for (const GpuFacts& gpu : health.gpus) {
    const std::string name = gpu_subject(gpu);
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
    const auto down = std::ranges::count_if(gpu.nvlinks, [](const NvLink& link) { return !link.active; });
    if (down > 0 && down < std::ssize(gpu.nvlinks))
      add(Kind::notice, fmt::format("{}: {} of {} NVLinks are down", name, down, gpu.nvlinks.size()));
  }
  if (const std::string text = activity(health.gpus); !text.empty()) troubles.push_back({Kind::notice, text});
  return troubles;
}

std::vector<Trouble> host_troubles(const Counters& counters_before, const Probe& probe) {
  std::vector<Trouble> troubles;
  Counters now;
  try_to([&] { now = error_counters(probe); });
  try_to([&] { look_at_links(troubles, counters_before, now, probe); });
  try_to([&] { look_at_counters(troubles, counters_before, now); });
  try_to([&] { look_at_shared_memory(troubles, probe); });
  try_to([&] { look_at_memory(troubles, probe); });
  try_to([&] { look_at_files(troubles, probe); });
  try_to([&] { look_at_kernel(troubles, counters_before, probe); });
  try_to([&] {
    if (probe.root != "/") return;  // NVML knows this machine only
    std::ranges::move(gpu_troubles(read_gpus_within(3)), std::back_inserter(troubles));
  });
  return troubles;
}

}  // namespace busbar
