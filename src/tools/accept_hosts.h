#pragma once

#include "common/accept/accept_result.h"
#include "common/backends/backend.h"
#include "common/cluster/comm.h"
#include "common/doctor/probe.h"

#include <chrono>
#include <string>
#include <vector>

namespace busbar {

/// The job's hosts with their ranks and devices, in the order of their lowest ranks; complete on process 0. Collective.
std::vector<AcceptResult::Host> describe_hosts(const Comm& world, const Backend& backend);

/// What carries traffic between hosts as this one's sysfs shows: "ib", "roce", "efa", else "ethernet". Pure.
std::string network_of(const Probe& probe);

/// The error counters of all hosts from its making on. Collective over the world both times.
class HostCounters {
 public:
  explicit HostCounters(const Comm& world);

  /// What moved, judged, subjects beginning with the host; complete on process 0.
  std::vector<DoctorRow> moved() const;

 private:
  const Comm& world_;
  bool reads_;  ///< one process per host does
  std::vector<CounterReading> before_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace busbar
