#pragma once

#include <filesystem>
#include <string>

namespace busbar {

/// Writes a file of this user's alone under a name that others can guess, in a folder that others may write: whole or
/// not at all, and through no link that somebody has laid there. Where it was written; empty where it could not be.
std::string write_private_file(const std::string& text, const std::filesystem::path& folder, const std::string& name);

}  // namespace busbar
