#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// One of the devices that NCCL lists: "[0]mlx5_0:1/RoCE", "eth0:10.0.0.1<0>".
struct NetDevice {
  std::string name;  ///< "mlx5_0", "eth0"
  std::string link;  ///< "RoCE", "IB"; empty where not told
};

std::vector<NetDevice> net_devices(std::string_view list);

/// The addresses in "[0]eth0:10.0.0.1<0> [1]ib0:fe80::1%ib0<0>",
/// "peer 10.0.0.1<4242>": what stands before '<'.
std::vector<std::string> addresses_in(std::string_view text);

}  // namespace busbar
