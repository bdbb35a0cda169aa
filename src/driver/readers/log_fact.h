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

/// A line of PyTorch's ProcessGroupNCCL watchdog.
struct TorchWork {
  int rank = -1;
  std::string_view group;  ///< "[PG ID 0 PG GUID 0(default_pg) Rank 3]" has it; empty if unknown
  LineShape said;          ///< "timed-out" or "last-state" of `watchdog` in general.yaml
  std::string_view line;   ///< all of it
};

/// A line of NCCL that nothing above describes, or a line not of NCCL.
struct OtherLine {
  bool nccl = false;
  std::string_view text;
  bool chatter = false;  ///< known, and of no use: not to be counted as unknown
};

/// A LineShape is any other of `messages` in configs/rules/lines/general.yaml, which names its parts.
using LogFact = std::variant<OtherLine, CollCall, InitTimings, Warning, TorchWork, KernelEvent, LineShape>;

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

  /// Its shape if it is one of that key, else null.
  const LineShape* shape(std::string_view key) const {
    const auto* const shape = std::get_if<LineShape>(&fact);
    return shape != nullptr && shape->key == key ? shape : nullptr;
  }
};

}  // namespace busbar
