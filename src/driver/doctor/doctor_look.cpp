#include "driver/doctor/doctor_look.h"

#include "common/base/timestamp.h"
#include "driver/doctor/checks.h"

#include <iterator>
#include <utility>

namespace busbar {

NodeReport look_at_node(const Probe& probe) {
  NodeReport node;
  node.host = probe.host;
  node.time = local_timestamp();
  node.time_s = probe.now_s;
  node.rows = check_node(probe);
  Rows own = check_process(probe);
  node.rows.insert(node.rows.end(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  node.counters = read_counters(probe);
  return node;
}

NodeReport look_at_this_node() {
  NodeReport node = look_at_node(probe_this_machine());
  check_gpus(node.rows);
  for (CounterReading& one : read_gpu_counters()) node.counters.push_back(std::move(one));
  return node;
}

}  // namespace busbar
