#include "common/base/timestamp.h"
#include "common/doctor/checks.h"
#include "tools/doctor_gather.h"

#include <iterator>

namespace busbar {

// In a file of its own: `busbar doctor --local` starts where there is no MPI.
NodeReport look_at_this_node() {
  const Probe probe = probe_this_machine();
  NodeReport node;
  node.host = probe.host;
  node.time = local_timestamp();
  node.time_s = probe.now_s;
  node.rows = check_node(probe);
  Rows own = check_process(probe);
  node.rows.insert(node.rows.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  return node;
}

}  // namespace busbar
