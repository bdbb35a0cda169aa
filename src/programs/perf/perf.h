#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace busbar {

class Backend;

/// The whole of `<collective>_perf`: from the command line to the exit code. Never throws. `wrap`: WrapBackend of
/// job.h, whose headers would take most of the time of compiling seventeen mains.
int run_perf(int argc, char** argv, std::string_view collective_name,
             const std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)>& wrap = {});

}  // namespace busbar
