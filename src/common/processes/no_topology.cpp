// What a build without hwloc knows of the places of processes and devices.
#include "common/processes/topology.h"

namespace busbar {

std::string binding_text() { return "binding unknown"; }

std::vector<std::string> topology_lines(const std::string& /*xml_file*/) {
  return {"process in an unknown place: this build has no hwloc; install its headers and configure again"};
}

}  // namespace busbar
