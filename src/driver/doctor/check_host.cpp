#include "driver/doctor/host_parts.h"

namespace busbar {

void check_host(const Probe& probe, Rows& rows) {
  check_limits(probe, rows);
  check_shared_memory(probe, rows);
  check_memory(probe, rows);
  check_disks(probe, rows);
  check_cpus(probe, rows);
  check_isolation(probe, rows);
}

}  // namespace busbar
