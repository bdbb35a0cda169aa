#pragma once

#include <string>

namespace busbar {

/// `busbar diagnose --help-capture`: how to run a job so that its logs tell what hung, and what that costs.
std::string capture_help();

}  // namespace busbar
