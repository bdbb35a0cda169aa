#pragma once

#include "common/machine/gpus.h"
#include "common/machine/probe.h"
#include "common/processes/comm.h"
#include "common/record/node_report.h"

#include <chrono>
#include <optional>
#include <vector>

namespace busbar {

/// This node alone, without MPI: what `doctor --local` checks. Seconds at most.
NodeReport look_at_this_node();

/// The same for a machine that a probe shows, GPUs left out: they are not in files.
NodeReport look_at_node(const Probe& probe);

/// Every node of the job: the node's rows by one rank per host, the process's by each. Complete, in the order of the
/// nodes' lowest ranks, on process 0; empty elsewhere. Collective; throws AgreedError.
std::vector<NodeReport> gather_doctor(const Comm& world);

/// Error counters and XIDs of all hosts over a run, to name the port, the quota or the GPU that made a host slow.
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
