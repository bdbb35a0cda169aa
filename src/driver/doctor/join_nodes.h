#pragma once

#include "common/machine/gpus.h"
#include "common/machine/probe.h"
#include "common/processes/comm.h"
#include "common/record/node_report.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// The reports of nodes as one: findings that several share appear once, and what must agree over the nodes (and over
/// the ranks of one node) is compared, the worst first. A node that lacks what others have counts as "none", which is a
/// warning (but for settings of the environment), unless it says with a SKIP row of that check, or of its family
/// ("rdma" for "rdma.rate"), that it could not look, or with a finding about that subject that it is sick. Odd values
/// that are not OK by themselves are not repeated. Subjects that differ alike are one. Pure.
DoctorVerdict join_nodes(const std::vector<NodeReport>& nodes);

/// Several processes of one node as one report: a row that all of them have appears once, without ranks. Each part has
/// one rank; host and time are the first's. Pure.
NodeReport merge_ranks(const std::vector<NodeReport>& parts);

// Against older ones, and as text. ------------------------------------------------------------------------------------

/// A check with another outcome than before, or whose value must agree and is another one.
struct ChangedRow {
  std::string host;
  std::optional<DoctorRow> before;  ///< nothing: the row is new
  std::optional<DoctorRow> after;   ///< nothing: the row is gone
};

/// What differs on the nodes that both reports have. Values that always move (free space, load) do not count; rows
/// that were OK and are gone, or are new and OK, only count if their value must agree. Pure.
std::vector<ChangedRow> changed_rows(const std::vector<NodeReport>& before, const std::vector<NodeReport>& after);

/// Nodes of `one` that `other` does not have.
std::vector<std::string> missing_hosts(const std::vector<NodeReport>& one, const std::vector<NodeReport>& other);

/// Compares the counters of `before` with those of each node of `after`, judged: as rows of that node, to be joined
/// like any others. Nodes that only one of them has are left out. Pure.
std::vector<NodeReport> moved_on_nodes(const std::vector<NodeReport>& before, const std::vector<NodeReport>& after);

/// The verdict in one line, then what must agree and does not, then the findings by the nodes that have them, each with
/// its remedy, then what could not be checked.
std::string doctor_text(const DoctorVerdict& verdict);

/// Every row of every node: --verbose.
std::string doctor_rows_text(const std::vector<NodeReport>& nodes);

/// Two reports compared.
struct DoctorDifference {
  std::string before;  ///< the older report's file
  double seconds = 0;  ///< between them; 0: not known
  std::vector<ChangedRow> changes;
  std::vector<DoctorRow> counters;  ///< that moved and harm nothing; the others are among the findings
  std::vector<std::string> gone;    ///< nodes that only the older one has
  std::vector<std::string> added;   ///< nodes that only the newer one has
};
std::string doctor_difference_text(const DoctorDifference& difference);

// Where they come from, doctor_gather.cpp. ----------------------------------------------------------------------------

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
