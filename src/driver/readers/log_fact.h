#pragma once

#include "common/backends/init_timings.h"
#include "common/machine/kernel_log.h"

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

/// "comm 0x... rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0".
struct CommShape {
  std::uint64_t comm = 0;
  int rank = -1;
  int nranks = -1;
  int nnodes = -1;
};

/// "Channel 00/0 : 3[0] -> 4[1] [send] via NET/IB/0/GDRDMA" and its older forms.
struct Connection {
  int src = -1;
  int dst = -1;
  std::string_view transport;  ///< "P2P", "SHM", "NET"
  std::string_view detail;     ///< "CUMEM/read", "IB/0/GDRDMA"
  std::string_view network;    ///< of NET: "IB", "Socket", a plugin's name
  bool gdr = false;
};

/// "Connected all rings" and the like.
struct Connected {
  enum class What : std::uint8_t { rings, trees, nvls };
  What what = What::rings;
  int pxn = -1;
  int gdr = -1;
};

/// "Bootstrap timings total 0.212081 (create 0.000030, ...)".
struct BootstrapTimings {
  double total = -1;  ///< [s]
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

/// "NCCL_IB_TC set by environment to 128."
struct EnvSetting {
  std::string_view name;
  std::string_view value;
};

/// "Using network IB".
struct NetworkInUse {
  std::string_view network;
};

/// "NET/IB : Using [0]mlx5_0:1/RoCE [1]... ; OOB eth0:10.0.0.1<0>", "NET/Socket : Using [0]eth0:...", "NET/IB : No
/// device found." (no devices), "NET/OFI Selected Provider is efa (found 16 nics)", and "Bootstrap : Using eth0:...",
/// whose network is "Bootstrap" and which has an oob only.
struct NetDevices {
  std::string_view network;  ///< "IB", "Socket", "OFI", "Bootstrap"
  std::string_view devices;  ///< "[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE", "efa (found 16 nics)"
  std::string_view oob;      ///< "eth0:10.0.0.1<0>"; empty if unknown
  bool relaxed_ordering = false;
};

/// NCCL WARN, and what says as much at INFO: "Call to connect returned Connection refused, retrying", port events.
struct Warning {
  std::string_view file;      ///< "transport/net_ib.cc:123"; empty if unknown
  std::string_view function;  ///< 2.30.7 on
  std::string_view text;
};

/// "enqueue.cc:123 -> 3 [Async thread]".
struct ReturnCode {
  int code = 0;
  std::string_view thread;
};

/// "comm 0x... rank 0 nranks 2 ... - Destroy COMPLETE | Abort COMPLETE".
struct CommEnd {
  std::uint64_t comm = 0;
  int rank = -1;
  bool abort = false;
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

using LogFact = std::variant<OtherLine, CollCall, InitEvent, CommShape, Connection, Connected, InitTimings,
                             BootstrapTimings, TuningChoice, VersionLine, EnvSetting, NetworkInUse, NetDevices, Warning,
                             ReturnCode, CommEnd, TorchWork, KernelEvent>;

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
