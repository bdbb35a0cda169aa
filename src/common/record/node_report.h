#pragma once

#include "common/base/outcome.h"
#include "common/record/json_values.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// How doctor prints an outcome: a check that passed is "OK".
inline constexpr std::array<std::string_view, 5> kDoctorWords = {"SKIP", "OK", "WARN", "INCONCLUSIVE", "FAIL"};

constexpr std::string_view doctor_word(Outcome outcome) { return kDoctorWords[static_cast<std::size_t>(outcome)]; }

/// What one check found on one node, about one thing there.
struct DoctorRow {
  std::string check =
      {};  ///< stable, for grep, JSON and --diff: "host.memlock", "net.rate", "gpu.row_remap", "env.unknown"
  std::string subject = {};         ///< "mlx5_3/1", "GPU 2 0000:18:00", "NCCL_IB_DISBALE"; empty: the host itself
  Outcome outcome = Outcome::pass;  ///< not inconclusive; printed OK, WARN, FAIL, SKIP
  std::string value = {};           ///< what was found, as text that is equal if nodes are: "unlimited", "400 Gb/sec"
  std::string reason = {};          ///< why not OK, or why skipped; empty: OK
  std::string remedy = {};          ///< what to do; if the value must agree, also what to do if it does not
  bool must_agree = false;          ///< the value must be the same on all nodes (for this check and subject)
  Outcome if_differs = Outcome::warn;  ///< the outcome of a value that differs from most nodes'
  std::vector<int> ranks = {};         ///< the node's ranks that found it so; empty: the node itself, or all its ranks
  bool operator==(const DoctorRow&) const = default;
};

/// A counter's state, for deltas over a run. Never judged by its absolute value.
struct CounterReading {
  std::string name;  ///< "ib/mlx5_3/1/symbol_error", "net/eth0/carrier_changes", "gpu/0/nvlink_replay"
  std::uint64_t value = 0;
  bool operator==(const CounterReading&) const = default;
};

/// All that `doctor` knows of one node.
struct NodeReport {
  std::string host;
  std::vector<int> ranks;  ///< of the job on this node; empty with --local
  std::string time;        ///< "YYYY-MM-DD HH:MM:SS", local
  double time_s = 0;       ///< the same since the epoch, for rates of counters
  std::vector<DoctorRow> rows;
  std::vector<CounterReading> counters;
};

/// Several nodes as one finding: first values that must agree but differ, then what is not OK.
struct DoctorVerdict {
  /// One value that must agree: "libnccl 2.28.9 on 63 nodes, 2.27.3 on node17".
  struct Unequal {
    std::string check;
    std::string subject;
    Outcome outcome = Outcome::warn;
    std::string remedy;
    struct Value {
      std::string value;                ///< "none" if there is no such thing
      std::vector<std::string> places;  ///< hosts, or "node17 rank 3"
      auto operator<=>(const Value&) const = default;
    };
    std::vector<Value> values;  ///< the most common first; if it is a majority, the others are odd
  };
  struct Line {
    DoctorRow row;                   ///< from the first of the nodes
    std::vector<std::string> hosts;  ///< with the same finding, in the given order
    bool other_values = false;       ///< some of them had another value
  };
  Outcome outcome = Outcome::pass;  ///< the worst of all lines; a skip alone is a pass
  std::size_t nodes = 0;
  std::vector<Unequal> unequal;  ///< worst first
  std::vector<Line> lines;       ///< everything else that is not OK, worst first; skips last
  std::size_t ok = 0;            ///< rows that were OK
};

/// One node's report with all rows, also OK ones, in the form of documents.
Json node_report_value(const NodeReport& node);

/// Reads it back. Throws Error(bad_config) saying what is wrong: the input is untrusted.
NodeReport read_node_report(const Json& value);

/// The document of `doctor -J`: the finding, then every node's report.
std::string doctor_json(const std::vector<NodeReport>& nodes, const DoctorVerdict& verdict);

/// The nodes' reports in such a document. `name`: the file's, for messages. Throws Error(bad_config).
std::vector<NodeReport> read_doctor_json(std::string_view text, const std::string& name);

}  // namespace busbar
