#pragma once

#include <map>
#include <string>
#include <string_view>

namespace busbar {

/// All of configs/rules/remedies.yaml, by name.
const std::map<std::string, std::string>& remedies();

/// The one of that name. The names stand in the code: one that is not there is an error of the program, which a unit
/// test finds.
const std::string& remedy(std::string_view name);

}  // namespace busbar
