#pragma once

#include "common/backends/init_timings.h"
#include "common/machine/kernel_log.h"
#include "driver/rules/line_rules.h"

#include <cstdint>
#include <string_view>
#include <variant>

namespace busbar {

// What one line of a log says. Texts are views into the line and live as long as it does. A number that a
// version of NCCL does not print is -1 (0 for pointers and ids).

/// A communicator call: "AllReduce: opCount 1f sendbuff ... count 1024 datatype 7 op 0 root 0 comm 0x... [nranks=8]".
struct CollCall {
  std::string_view op;  ///< "AllReduce", "Send"
  std::uint64_t op_count = 0;
  std::uint64_t count = 0;
  std::string_view dtype;  ///< as printed: a number or a word
  std::string_view redop;
  std::int64_t root = -1;  ///< the peer of Send and Recv
  std::uint64_t comm = 0;
  int nranks = -1;
};

/// "... comm 0x... rank 3 nranks 8 ... - Init START | Init COMPLETE", and ncclCommSplit's bootstrap.
struct InitEvent {
  std::string_view function;  ///< "ncclCommInitRank", empty before 2.21
  std::uint64_t comm = 0;
  int rank = -1;
  int nranks = -1;
  int cuda_dev = -1;
  std::string_view bus_id;
  std::uint64_t comm_id = 0;
  std::uint64_t parent = 0;
  std::int64_t color = -1;
  bool complete = false;
};

/// "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}" and its older forms.
struct TuningChoice {
  std::string_view op;  ///< empty before 2.23
  std::uint64_t bytes = 0;
  std::string_view algo;  ///< as printed: a word, or a number up to 2.23
  std::string_view proto;
};

struct VersionLine {
  std::string_view nccl;  ///< "2.28.9"
  std::string_view cuda;  ///< "13.0"; empty if unknown
};

/// A pointer or an id; 0 if the shape has none of that name.
inline std::uint64_t pointer_in(const LineShape& of, std::string_view name) {
  std::uint64_t value = 0;
  pointer_of(of.text(name), value);
  return value;
}

/// NCCL WARN, and what says as much at INFO: "Call to connect returned Connection refused, retrying", port events.
struct Warning {
  std::string_view file;      ///< "transport/net_ib.cc:123"; empty if unknown
  std::string_view function;  ///< 2.30.7 on
  std::string_view text;
};

/// PyTorch's ProcessGroupNCCL watchdog: "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42,
/// OpType=ALLREDUCE, NumelIn=..., NumelOut=..., Timeout(ms)=600000) ran for 600100 milliseconds ..." and the like.
struct TorchWork {
  enum class What : std::uint8_t { timed_out, last_state };
  What what = What::timed_out;
  int rank = -1;
  std::string_view group;  ///< "[PG ID 0 PG GUID 0(default_pg) Rank 3]" has it; empty if unknown
  std::int64_t seq = -1;
  std::string_view op;
  std::int64_t numel_in = -1;
  std::int64_t numel_out = -1;
  std::int64_t timeout_ms = -1;
  std::int64_t ran_ms = -1;
  std::int64_t last_enqueued = -1;
  std::int64_t last_completed = -1;
  bool signalled = false;  ///< "Received a dump signal due to a collective timeout"
  std::string_view line;   ///< all of it
};

/// A line of NCCL that nothing above describes, or a line not of NCCL.
struct OtherLine {
  bool nccl = false;
  std::string_view text;
  bool chatter = false;  ///< known, and of no use: not to be counted as unknown
};

/// A LineShape is any other of `messages` in configs/rules/lines/general.yaml, which names its parts.
using LogFact = std::variant<OtherLine, CollCall, InitEvent, InitTimings, TuningChoice, VersionLine, Warning, TorchWork,
                             KernelEvent, LineShape>;

/// The writer of a line, as far as the line says.
struct LogOrigin {
  std::string_view host;  ///< empty if unknown
  std::int64_t pid = -1;
  std::int64_t tid = -1;
  int dev = -1;
  std::string_view timestamp;  ///< as printed; empty: none
  /// The launcher's, in front of the prefix: "[1,3]<stdout>:"; names the writer if NCCL does not.
  std::string_view decoration;
  /// The beginning of another process's line, whose end follows on the next lines.
  std::string_view torn;
};

struct LogLine {
  LogOrigin origin;
  LogFact fact;
};

}  // namespace busbar
