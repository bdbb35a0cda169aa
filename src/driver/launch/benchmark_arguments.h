#pragma once

#include "common/base/config.h"

#include <string>
#include <vector>

namespace busbar {

/// The options of a benchmark executable that measures as `config` says, whatever its source (command line, file):
/// sizes, types, operations, root, placement, how calls are made and checked. What a single run must not share with
/// others (its files, its limits of time, the seed) is left out.
std::vector<std::string> benchmark_arguments(const Config& config);

}  // namespace busbar
