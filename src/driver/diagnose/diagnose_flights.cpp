#include "driver/diagnose/diagnose_flights.h"

#include "common/base/error.h"
#include "common/base/units.h"
#include "common/machine/host_counters.h"
#include "common/watch/local_evidence.h"
#include "common/watch/ras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <thread>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookApart{2000};  ///< RAS's counters are compared over this time
constexpr std::chrono::milliseconds kRasLimit{3000};

std::string this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::string_view whole = name.data();
  return std::string(whole.substr(0, whole.find('.')));  // as records have it
}

/// What runs on this host now, watched for a moment.
void look_here(HostEvidence& host, std::vector<RasEvidence>& ras) {
  const auto before = error_counters();
  const std::uint64_t bytes = network_bytes();
  const auto begun = Clock::now();
  std::string first, second, why_not;
  try {
    first = ask_ras(kRasLimit);
  } catch (const std::exception& e) {
    why_not = e.what();
  }
  std::this_thread::sleep_for(kLookApart);
  const std::chrono::duration<double> time = Clock::now() - begun;
  host.net_bytes_per_s = static_cast<double>(network_bytes() - bytes) / time.count();
  host.troubles = host_troubles(before);
  if (first.empty()) return;
  try {
    second = ask_ras(kRasLimit);
  } catch (const std::exception& e) {
    why_not = e.what();
  }
  RasEvidence evidence = read_ras(second.empty() ? first : second, second.empty() ? std::string() : first);
  evidence.host = host.host;
  ras.push_back(std::move(evidence));
}

HostEvidence host_of(std::string name, std::vector<FlightState> flights, std::vector<RasEvidence>& ras) {
  HostEvidence host;
  host.host = std::move(name);
  host.reached = true;
  const bool here = host.host == this_host();
  bool running = false;
  for (FlightState& flight : flights) {
    RankEvidence rank;
    if (here) rank.process = process_state(flight);
    running = running || rank.process.life == ProcessState::Life::alive;
    rank.flight = std::move(flight);
    host.ranks.push_back(std::move(rank));
  }
  if (running) {
    look_here(host, ras);
  } else if (here) {
    host.troubles = host_troubles(error_counters());
  }
  return host;
}

}  // namespace

std::vector<FlightState> flights_of_job(std::vector<FlightState> flights, std::string_view jobid) {
  std::string wanted(jobid);
  std::map<std::string, std::int64_t> started;
  for (const FlightState& f : flights) {
    auto& at = started[f.jobid];
    at = std::max(at, f.started_unix_s);
  }
  if (wanted.empty()) {
    const auto newest = std::max_element(started.begin(), started.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (newest != started.end()) wanted = newest->first;
  } else if (!started.contains(wanted)) {
    std::set<std::string> jobs;
    for (const auto& [job, time] : started) jobs.insert(job);
    throw Error(ExitCode::bad_config,
                fmt::format("no flight record of job {}; {}", in_quotes(wanted),
                            jobs.empty() ? "there are none at all"
                                         : fmt::format("there are records of: {}", fmt::join(jobs, " "))));
  }
  std::erase_if(flights, [&](const FlightState& f) { return f.jobid != wanted; });
  return flights;
}

HangEvidence evidence_of_flights(std::vector<FlightState> flights) {
  HangEvidence evidence;
  evidence.occasion = HangEvidence::Occasion::files;
  evidence.reporter = "busbar diagnose on " + this_host();
  std::map<std::string, std::vector<FlightState>> by_host;
  constexpr int kMost = 1 << 22;
  for (FlightState& f : flights) {
    evidence.jobid = f.jobid;
    evidence.nprocs = std::max(evidence.nprocs, std::min(f.nprocs, kMost));
    evidence.limit_s = std::max(evidence.limit_s, f.limit_s);
    evidence.idle_s = by_host.empty() ? f.idle_s : std::min(evidence.idle_s, f.idle_s);
    std::string host = f.host;
    by_host[std::move(host)].push_back(std::move(f));
  }
  for (auto& [name, of_host] : by_host) evidence.hosts.push_back(host_of(name, std::move(of_host), evidence.ras));
  // As people number them: by their lowest ranks.
  std::sort(evidence.hosts.begin(), evidence.hosts.end(), [](const HostEvidence& a, const HostEvidence& b) {
    return a.ranks.front().flight.rank < b.ranks.front().flight.rank;
  });
  return evidence;
}

}  // namespace busbar
