#pragma once

#include <filesystem>
#include <string_view>

namespace busbar {

/// The executable of this build called `name`, beside this one, with what NAME_SUFFIX appends to all of them. `self`:
/// this executable, busbar or busbar-ranks; empty where it cannot be told.
std::filesystem::path program_beside(const std::filesystem::path& self, std::string_view name);
std::filesystem::path program_beside(std::string_view name);

}  // namespace busbar
