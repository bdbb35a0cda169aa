#pragma once

#include "common/accept/accept_result.h"

#include <string>
#include <vector>

namespace busbar {

/// What is known to be reached, by platform, number of nodes, collective, size and algorithm: from
/// configs/platforms/*.yaml, each number with its source.
struct PlatformEntry {
  std::string platform;
  int nodes_min = 1;
  int nodes_max = 1;
  std::string collective;
  std::uint64_t nbytes_min = 0;
  std::uint64_t nbytes_max = 0;
  std::string algorithm;  ///< "any", "RING", "NVLS", ...
  double busbw = 0;       ///< [1e9 B/s]
  std::string kind;       ///< "measured" or "threshold"
  std::string source;
};

/// How a platform is recognised, and its links, from which ceilings follow.
struct Platform {
  std::string name;  ///< "h100-sxm-ndr"
  std::string gpu;   ///< part of the device's name; empty: no GPUs
  int gpus_per_node = 0;
  std::string network;     ///< "ib", "roce", "efa"; empty: any
  double nvlink_gbs = 0;   ///< one way per GPU [1e9 B/s]
  double network_gbs = 0;  ///< of all NICs of a node, one way [1e9 B/s]
  std::string source;
  std::vector<PlatformEntry> entries;
};

/// Judges everything measured so far against the plan; pure. `baseline`: an earlier run, or null. Fills criteria and
/// outcome; nothing is a pass that was not measured.
void judge_acceptance(AcceptResult& result, const std::vector<Platform>& platforms, const AcceptResult* baseline);

}  // namespace busbar
