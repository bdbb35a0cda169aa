#include "driver/doctor/check_rank_gpus.h"
#include "driver/doctor/checks.h"

namespace busbar {

Rows check_node(const Probe& probe) {
  Rows rows;
  check_versions(probe, rows);
  check_network(probe, rows);
  check_locality(probe, rows);
  check_host(probe, rows);
  check_plugins(probe, rows);
  check_kernel_log(probe, rows);
  return rows;
}

Rows check_process(const Probe& probe) {
  Rows rows;
  check_own_cpus(probe, rows);
  check_own_gpu(probe, rows);
  check_environment(probe, rows);
  return rows;
}

}  // namespace busbar
