#pragma once

#include <fmt/format.h>

#include <string>

namespace busbar {

/// The oldest NCCL library that has every function the suite calls (ncclAlltoAll, ncclGather, ncclScatter).
inline constexpr int kMinNcclVersion = 22800;

/// "2.28.9" from ncclGetVersion's 22809; libraries before 2.9 had one digit less per part (2804 is 2.8.4).
inline std::string nccl_version_text(int code) {
  const int scale = code >= 10000 ? 10000 : 1000;
  return fmt::format("{}.{}.{}", code / scale, code % scale / 100, code % 100);
}

}  // namespace busbar
