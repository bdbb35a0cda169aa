#pragma once

#include "driver/diagnose/log_fact.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// What NCCL says in a message, one parser per family of shapes. Each returns false and leaves the fact unchanged where
// the text is not one of its family, or is cut before it says so.

/// CollCall: "AllReduce: opCount 1f sendbuff ... stream 0x...", and what people shorten it to ("AllReduce: opCount 280
/// count 512").
bool parse_call(std::string_view text, LogFact& fact);

/// TuningChoice, of 2.4 to 2.30: "[Op: ]1024 Bytes -> Algo a proto p ...". `text` begins with it.
bool parse_tuning(std::string_view text, LogFact& fact);

/// InitEvent, CommShape, CommEnd, InitTimings or BootstrapTimings.
bool parse_init(std::string_view text, LogFact& fact);

/// Connection, Connected or ChannelCounts; ring tables and graphs begin alike.
bool parse_transport(std::string_view text, LogFact& fact);

/// EnvSetting, VersionLine or Capability.
bool parse_setting(std::string_view text, LogFact& fact);

/// NetworkInUse, NetDevices or GdrLine.
bool parse_network(std::string_view text, LogFact& fact);

/// ReturnCode, "enqueue.cc:123 -> 3 [Async thread]", or a Warning that NCCL only calls INFO.
bool parse_trouble(std::string_view text, LogFact& fact);

/// One of the devices that NCCL lists: "[0]mlx5_0:1/RoCE", "eth0:10.0.0.1<0>".
struct NetDevice {
  std::string name;  ///< "mlx5_0", "eth0"
  std::string link;  ///< "RoCE", "IB"; empty where the log does not say
};

/// The devices in a text of the fact NetDevices.
std::vector<NetDevice> net_devices(std::string_view list);

/// The addresses in "[0]eth0:10.0.0.1<0> [1]ib0:fe80::1%ib0<0>", "peer 10.0.0.1<4242>": what stands before '<'.
std::vector<std::string> addresses_in(std::string_view text);

}  // namespace busbar
