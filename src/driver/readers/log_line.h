#pragma once

#include "driver/readers/log_fact.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A timestamp as docker, Kubernetes and syslog put it in front of a line, "2026-05-05T06:16:47.123Z"; empty if there
/// is none.
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
