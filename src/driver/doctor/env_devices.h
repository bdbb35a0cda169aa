#pragma once

#include "driver/doctor/checks.h"
#include "driver/doctor/nccl_conf.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Of `names`, those that a list of NCCL's takes: "mlx5_0,mlx5_1:1" are prefixes, "=mlx5_0" whole names, "^docker" all
/// but prefixes, "^=mlx5_2" all but whole names (NCCL, src/misc/utils.cc). A port after a colon does not count. Pure.
std::vector<std::string> taken_by_list(std::string_view list, const std::vector<std::string>& names);

/// Whether an interface has the name of one that never leads to another host: loopback, of containers, tunnels, Wi-Fi.
bool leads_nowhere(std::string_view name);

/// NCCL_IB_HCA and NCCL_SOCKET_IFNAME against the devices that there are.
void check_selected_devices(const Probe& probe, const std::map<std::string, NcclSetting>& settings, Rows& rows);

}  // namespace busbar
