#pragma once

#include <fmt/format.h>

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

/// The oldest NCCL library that has every function the suite calls (ncclAlltoAll, ncclGather, ncclScatter).
inline constexpr int kMinNcclVersion = 22800;

/// "2.28.9" from ncclGetVersion's 22809; libraries before 2.9 had one digit less per part (2804 is 2.8.4).
inline std::string nccl_version_text(int code) {
  const int scale = code >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", code / scale, code % scale / 100, code % 100);
}

}  // namespace busbar
