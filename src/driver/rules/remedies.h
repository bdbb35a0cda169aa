#pragma once

#include <string>
#include <string_view>

namespace busbar {

/// The remedy of that name in configs/rules/remedies.yaml. The names stand in the code: one that is not there is an
/// error of the program, which a unit test finds.
const std::string& remedy(std::string_view name);

}  // namespace busbar
