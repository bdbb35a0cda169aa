#pragma once

#include <optional>
#include <string>

namespace busbar {

/// Fields of ncclConfig_t in which communicators of one job can differ; NCCL's own choice where nothing is set. NCCL
/// refuses minCTAs alone: set both.
struct NcclFields {
  std::optional<int> min_ctas;
  std::optional<int> max_ctas;
  std::optional<int> cga_cluster_size;
  std::optional<int> cta_policy;
  std::optional<int> nvls_ctas;
  std::string net_name;  ///< "IB", "Socket"; empty: NCCL's own choice
};

}  // namespace busbar
