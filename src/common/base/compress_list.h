#pragma once

#include "common/base/rank_list.h"

#include <span>
#include <string>
#include <vector>

namespace busbar {

/// Host names, compressed: "node[3,7-9],login". Names that do not count stay as they are. Pure.
std::string compress_hosts(const std::vector<std::string>& hosts);

/// "0-12,14,15": how lists of ranks are written.
std::string compress_ranks(const RankList& ranks);
std::string compress_ranks(std::span<const int> ranks);

}  // namespace busbar
