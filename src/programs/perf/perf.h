#pragma once

#include "common/backends/backend.h"

#include <functional>
#include <memory>
#include <string_view>

namespace busbar {

/// Puts something around a backend: the fault tests' way of breaking it.
using WrapBackend = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)>;

/// The whole of `<collective>_perf`: from the command line to the exit code. Never throws.
int run_perf(int argc, char** argv, std::string_view collective_name, const WrapBackend& wrap = {});

}  // namespace busbar
