#include "driver/compare/communicator_settings.h"

#include <algorithm>
#include <array>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 2> kOmpi{"ompi.algorithm", "ompi.segmentsize"};

/// Read again whenever NCCL makes a communicator.
constexpr std::array<std::string_view, 8> kPerCommunicator{
    "NCCL_ALGO",           "NCCL_PROTO",           "NCCL_THREAD_THRESHOLDS", "NCCL_NET",
    "NCCL_COLLNET_ENABLE", "NCCL_NET_MERGE_LEVEL", "NCCL_TOPO_FILE",         "NCCL_GRAPH_FILE"};

/// Fields of ncclConfig_t; `nccl.ctas` sets minCTAs and maxCTAs alike, which fixes the number of channels.
constexpr std::array<std::string_view, 7> kConfigFields{"nccl.ctas",           "nccl.minCTAs",   "nccl.maxCTAs",
                                                        "nccl.cgaClusterSize", "nccl.CTAPolicy", "nccl.nvlsCTAs",
                                                        "nccl.netName"};

}  // namespace

std::vector<std::string> settings_of_communicators() {
  std::vector<std::string> names(kOmpi.begin(), kOmpi.end());
  names.insert(names.end(), kPerCommunicator.begin(), kPerCommunicator.end());
  names.insert(names.end(), kConfigFields.begin(), kConfigFields.end());
  return names;
}

bool rereads_per_communicator(std::string_view name) {
  const std::vector<std::string> known = settings_of_communicators();
  // Any number that coll_tuned reads when a communicator is made.
  return std::find(known.begin(), known.end(), name) != known.end() || name.starts_with("ompi.coll_tuned_");
}

std::string_view setting_in_one_job(std::string_view name) {
  if (name.ends_with("_NCHANNELS") || name == "NCCL_MIN_CTAS" || name == "NCCL_MAX_CTAS" || name.ends_with("_NRINGS")) {
    return "nccl.ctas";
  }
  if (name == "NCCL_NVLS_ENABLE") return "NCCL_ALGO=^NVLS";
  if (name == "NCCL_PAT_ENABLE") return "NCCL_ALGO=^PAT";
  if (name == "NCCL_CGA_CLUSTER_SIZE") return "nccl.cgaClusterSize";
  if (name == "NCCL_CTA_POLICY") return "nccl.CTAPolicy";
  if (name == "NCCL_NVLS_NCHANNELS") return "nccl.nvlsCTAs";
  return {};
}

}  // namespace busbar
