#include "common/measure/disturbance.h"

#include "common/processes/comm.h"
#include "common/processes/session.h"
#include "common/statistics/interval.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <utility>

namespace busbar {
namespace {

constexpr double kThrottledShare = 0.005;
constexpr double kDrift = 1.10;
/// A difference of the few counters in a figure, each cut to 10 ms at both ends of the window, may be wrong by this.
constexpr double kCounterError = 0.03;

double rate(double amount, double elapsed_s) { return elapsed_s > 0 ? amount / elapsed_s : 0; }

double doubt(const HostWindow& w) { return rate(kCounterError, w.elapsed_s); }

void flag_throttling(const HostWindow& w, double throttled_s, const char* by, std::vector<std::string>& flags) {
  if (throttled_s <= kThrottledShare * w.elapsed_s) return;
  flags.push_back(
      fmt::format("throttled: {:.2f} CPU seconds in {:.1f} s by {} on {}", throttled_s, w.elapsed_s, by, w.host));
}

void flag_drift(const HostWindow& w, double spread, const char* canary, std::vector<std::string>& flags) {
  if (spread <= kDrift) return;
  flags.push_back(fmt::format("machine_drift: {} canary p90/p10 {:.2f} on {}", canary, spread, w.host));
}

double stolen_cores(const HostWindow& w) { return rate(w.steal_s, w.elapsed_s); }
double switches_per_s(const HostWindow& w) { return rate(w.switches, w.elapsed_s); }

constexpr double kShortest = 0.2;
constexpr double kLongest = 1;
constexpr double kEnoughCpu = 0.02;

double wall_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// All three at one moment: a wait between the readings is in only some of them, so of several tries this takes the one
/// with the least wait (if many ranks share a core, none may be without).
CoreTime so_far(const CoreClocks& clocks) {
  constexpr int kTries = 100;
  CoreTime best;
  double least_s = 0;
  for (int i = 0; i < kTries; ++i) {
    const double before_s = clocks.waited_s();
    const CoreTime now{clocks.wall_s(), clocks.cpu_s(), before_s};
    const double between_s = clocks.waited_s() - before_s;
    if (i == 0 || between_s < least_s) {
      best = now;
      least_s = between_s;
    }
    if (between_s <= 0) break;
  }
  return best;
}

/// Hides from the compiler that `value` could be computed beforehand, or need not be computed at all.
template <class T>
void keep(T& value) {
  asm volatile("" : "+r"(value) : : "memory");
}

std::uint64_t spin() {
  constexpr int kSteps = 250'000;  // each waits for the last one: a multiplication and an addition, 4 to 5 cycles
  std::uint64_t x = 1;
  keep(x);
  for (int i = 0; i < kSteps; ++i) x = x * 6364136223846793005U + 1442695040888963407U;
  keep(x);
  return x;
}

std::size_t copied_bytes() {
  constexpr std::size_t kMiB = 1 << 20;
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return std::min(8 * kMiB, 2 * (l2 > 0 ? static_cast<std::size_t>(l2) : kMiB));
}

}  // namespace

BUSBAR_RECORD(HostWindow, host, elapsed_s, cpus, idle_s, steal_s, interrupts_s, own_s, container_s, heat_s, switches,
              spin_spread, copy_spread, spin_median_s, copy_median_s);

double foreign_cores(const HostWindow& w) {
  if (w.cpus == 0) return 0;
  const double processes_s = w.cpus * w.elapsed_s - w.idle_s - w.steal_s - w.interrupts_s;
  return std::max(0.0, rate(processes_s - w.own_s, w.elapsed_s));
}

Disturbance judge(std::span<const HostWindow> hosts) {
  Disturbance d;
  if (hosts.empty()) return d;
  // The host with the largest value of a figure.
  const auto worst = [&](auto figure) -> const HostWindow& { return *std::ranges::max_element(hosts, {}, figure); };

  const HostWindow& foreign = worst(foreign_cores);
  d.foreign_cpu = foreign_cores(foreign);
  d.foreign_host = foreign.host;
  if (d.foreign_cpu > kForeignCores + doubt(foreign))
    d.flags.push_back(fmt::format("foreign_cpu: {:.2f} cores on {}", d.foreign_cpu, foreign.host));

  const HostWindow& stolen = worst(stolen_cores);
  d.steal = stolen_cores(stolen);
  if (d.steal > kStolenCores + doubt(stolen))
    d.flags.push_back(fmt::format("steal: {:.2f} cores on {}", d.steal, stolen.host));

  const HostWindow& quota = worst(&HostWindow::container_s);
  const HostWindow& heat = worst(&HostWindow::heat_s);
  d.throttled_s = std::max(quota.container_s, heat.heat_s);
  flag_throttling(quota, quota.container_s, "the container's CPU quota", d.flags);
  flag_throttling(heat, heat.heat_s, "heat", d.flags);

  d.involuntary_switches = std::lround(switches_per_s(worst(switches_per_s)));

  const HostWindow& spin = worst(&HostWindow::spin_spread);
  const HostWindow& copy = worst(&HostWindow::copy_spread);
  d.spin_spread = spin.spin_spread;
  d.copy_spread = copy.copy_spread;
  d.spin_median_s = worst(&HostWindow::spin_median_s).spin_median_s;
  d.copy_median_s = worst(&HostWindow::copy_median_s).copy_median_s;
  flag_drift(spin, d.spin_spread, "spin", d.flags);
  flag_drift(copy, d.copy_spread, "copy", d.flags);
  return d;
}

OwnMoment own_moment() { return {std::chrono::steady_clock::now(), own_cpu()}; }

DisturbanceMonitor::DisturbanceMonitor(const Comm& world, std::filesystem::path root, std::function<OwnMoment()> now)
    : world_(world), host_(world.split_by_host()), root_(std::move(root)), now_(std::move(now)) {
  canary_.run();  // the first run is the slowest
  host_.barrier();
  start_ = read();
}

void DisturbanceMonitor::sweep() {
  const CanaryTimes times = canary_.run();
  spins_.push_back(times.spin_s);
  copies_.push_back(times.copy_s);
}

DisturbanceMonitor::Reading DisturbanceMonitor::read() const {
  // First the readings that must be from one moment on all of the host's processes.
  Reading now{now_(), {}, {}};
  if (host_.rank() == 0) {
    now.cpu = host_cpu(root_);
    now.throttled = throttling(root_);
  }
  return now;
}

/// The host's window; complete on process 0 of the host. Collective over the host.
HostWindow DisturbanceMonitor::window_until(const Reading& end) const {
  const OwnCpu& before = start_.own.cpu;
  const OwnCpu& after = end.own.cpu;
  std::array<double, 2> sums{after.used_s - before.used_s,
                             static_cast<double>(after.involuntary_switches - before.involuntary_switches)};
  host_.sum(sums);
  std::array<double, 4> canaries{spread_ratio(spins_), spread_ratio(copies_), median(spins_), median(copies_)};
  host_.max(canaries);

  HostWindow w;
  w.host = hostname();
  w.elapsed_s = std::chrono::duration<double>(end.own.time - start_.own.time).count();
  if (start_.cpu && end.cpu) {
    w.cpus = end.cpu->cpus;
    w.idle_s = end.cpu->idle_s - start_.cpu->idle_s;
    w.steal_s = end.cpu->steal_s - start_.cpu->steal_s;
    w.interrupts_s = end.cpu->interrupts_s - start_.cpu->interrupts_s;
  }
  w.container_s = end.throttled.container_s - start_.throttled.container_s;
  w.heat_s = end.throttled.heat_s - start_.throttled.heat_s;
  w.own_s = sums[0];
  w.switches = sums[1];
  w.spin_spread = canaries[0];
  w.copy_spread = canaries[1];
  w.spin_median_s = canaries[2];
  w.copy_median_s = canaries[3];
  return w;
}

Disturbance DisturbanceMonitor::finish() {
  host_.barrier();
  std::vector<HostWindow> mine{window_until(read())};
  if (host_.rank() != 0) mine.clear();  // process 0 of a host reports for all of it
  return judge(gather_records(world_, std::move(mine)));
}

double thread_cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

double waited_for_core_s() {
  std::ifstream file("/proc/thread-self/schedstat");
  double ran_ns = 0, waited_ns = 0;
  return file >> ran_ns >> waited_ns ? waited_ns / 1e9 : -1;
}

CoreClocks own_core_clocks() { return {wall_s, thread_cpu_s, waited_for_core_s}; }

CoreTime spin_on_core(const CoreClocks& clocks) {
  const CoreTime begin = so_far(clocks);
  for (double spun_s = 0; spun_s < kShortest || (spun_s < kLongest && clocks.cpu_s() - begin.cpu_s < kEnoughCpu);)
    spun_s = clocks.wall_s() - begin.wall_s;
  const CoreTime end = so_far(clocks);
  const bool known = begin.waited_s >= 0 && end.waited_s >= 0;
  return {end.wall_s - begin.wall_s, end.cpu_s - begin.cpu_s, known ? end.waited_s - begin.waited_s : -1};
}

// Real data in both, or the kernel would map all pages to one.
Canary::Canary() : from_(copied_bytes(), std::byte{1}), to_(from_.size(), std::byte{2}) {}

CanaryTimes Canary::run() {
  const double start = thread_cpu_s();
  const std::uint64_t spun = spin();
  const double spin_s = thread_cpu_s() - start;
  // Untimed at first: the caches' contents depend on earlier messages, not on the machine.
  copy();
  const double before = thread_cpu_s();
  copy();
  return {spin_s, thread_cpu_s() - before, spun};
}

void Canary::copy() {
  std::byte* to = to_.data();
  std::memcpy(to, from_.data(), from_.size());
  keep(to);
}

}  // namespace busbar
