#pragma once

#include "driver/diagnose/log_view.h"

#include <string>
#include <vector>

namespace busbar {

/// Something that is not the same on all ranks.
struct SettingSkew {
  std::string name;       ///< "NCCL_ALGO", "NCCL version"
  std::string text;       ///< "NCCL_ALGO: Ring on ranks 0-7; Tree on ranks 8-15"
  bool decisive = false;  ///< all ranks must have the same
  bool presence = false;  ///< set on some, not told by others: these may not have printed it
};

/// `decisive_only`: only what decides about what ranks send to each other.
std::vector<SettingSkew> setting_skews(const LogView& view, bool decisive_only);

}  // namespace busbar
