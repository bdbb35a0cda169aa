#pragma once

#include "common/machine/gpus.h"
#include "common/mpi/comm.h"
#include "common/record/node_report.h"

#include <chrono>
#include <optional>
#include <vector>

namespace busbar {

/// Error counters and XIDs of all hosts over a run, to name the port, the quota or the GPU behind a slow host.
class SearchCounters {
 public:
  /// Reads them, on the lowest process of each host, and listens from now on. Collective over `world`, which must
  /// outlive this.
  explicit SearchCounters(const Comm& world);

  /// What moved since by more than a healthy host's do, and XIDs; the subject begins with the host's name. Complete on
  /// process 0. Collective.
  std::vector<DoctorRow> moved() const;

 private:
  std::vector<CounterReading> read() const;

  const Comm& world_;
  bool reads_;
  std::optional<XidListener> xids_;  ///< where this process reads
  std::vector<CounterReading> before_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace busbar
