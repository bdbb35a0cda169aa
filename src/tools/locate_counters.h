#pragma once

#include "common/cluster/comm.h"
#include "common/doctor/node_report.h"

#include <chrono>
#include <vector>

namespace busbar {

/// Error counters of all hosts over a run, to name the port or the quota behind a slow host.
class SearchCounters {
 public:
  /// Reads them, on the lowest process of each host. Collective over `world`, which must outlive this.
  explicit SearchCounters(const Comm& world);

  /// What moved since by more than a healthy host's do; the subject begins with the host's name. Complete on process 0.
  /// Collective.
  std::vector<DoctorRow> moved() const;

 private:
  std::vector<CounterReading> read() const;

  const Comm& world_;
  bool reads_;
  std::vector<CounterReading> before_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace busbar
