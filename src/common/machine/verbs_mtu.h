#pragma once

#include <string>
#include <vector>

namespace busbar {

/// What one port of an RDMA device agreed on with its neighbour, which sysfs does not tell.
struct VerbsMtu {
  std::string device;  ///< "mlx5_3"
  int port = 1;
  int active_nbytes = 0;
  int most_nbytes = 0;  ///< that the port could have
};

/// Asks libibverbs, loaded and not linked, of every device that this user may open; empty where it is not installed.
/// Never throws; may take long where a driver is sick.
std::vector<VerbsMtu> ask_active_mtus(const std::string& library = "libibverbs.so.1");

}  // namespace busbar
