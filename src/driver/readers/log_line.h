#pragma once

#include "common/backends/init_timings.h"
#include "common/machine/kernel_log.h"
#include "driver/rules/line_rules.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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
  std::string_view host{};  ///< empty if unknown
  std::int64_t pid = -1;
  std::int64_t tid = -1;
  int dev = -1;
  std::string_view timestamp{};  ///< as printed; empty: none
  /// The launcher's, in front of the prefix: "[1,3]<stdout>:"; names the writer if NCCL does not.
  std::string_view decoration{};
  /// The beginning of another process's line, whose end follows on the next lines.
  std::string_view torn{};
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

/// A timestamp as docker, Kubernetes and syslog put it in front of a line, "2026-05-05T06:16:47.123Z"; or empty.
std::string_view find_iso_timestamp(std::string_view text);

/// The rank in a launcher's decoration: "[1,3]<stdout>:", "3: ", "[3]:", "[rank3]:". -1 if there is none ("[default3]"
/// is a number within its host).
int decoration_rank(std::string_view decoration);

/// A decoration without what changes from line to line (times), so that it identifies a process.
std::string decoration_label(std::string_view decoration);

/// The rank in a file's name: "rank_3.log", "rank-03.txt", "nccl.r3". -1 if there is none.
int file_name_rank(std::string_view name);

/// What a line says, of NCCL 2.3 to 2.30, of PyTorch's watchdog or of a kernel, with any launcher's decoration in front
/// of it. `line`: without its end. Lines that are cut or mixed up become OtherLine; never throws, and allocates for
/// no call.
LogLine parse_log_line(std::string_view line);

// What NCCL says in a message. Each returns false and leaves the fact an OtherLine if the text is none of its
// shapes, or is cut before it says so.

/// CollCall: "AllReduce: opCount 1f sendbuff ... stream 0x...", and its shortened forms ("AllReduce: opCount 280
/// count 512").
bool parse_call(std::string_view text, LogFact& fact);

/// Everything else; a Warning here is one that NCCL prints as INFO.
bool parse_message(std::string_view text, LogFact& fact);

/// One of the devices that NCCL lists: "[0]mlx5_0:1/RoCE", "eth0:10.0.0.1<0>".
struct NetDevice {
  std::string name;  ///< "mlx5_0", "eth0"
  std::string link;  ///< "RoCE", "IB"; empty if the log does not say
};

/// The devices in a list of the shape `devices`.
std::vector<NetDevice> net_devices(std::string_view list);

/// The addresses in "[0]eth0:10.0.0.1<0> [1]ib0:fe80::1%ib0<0>", "peer 10.0.0.1<4242>": what is before '<'.
std::vector<std::string> addresses_in(std::string_view text);

}  // namespace busbar
