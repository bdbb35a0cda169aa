#pragma once

#include "common/evidence/hang_evidence.h"
#include "common/record/json_values.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace busbar {

/// hang-JOBID.json: the finding and all of the evidence.
std::string hang_json(const HangEvidence& evidence, const HangFinding& finding);
/// The same for documents that embed it.
Json hang_value(const HangEvidence& evidence, const HangFinding& finding);

/// Reads the evidence of such a file; `name` is for messages. Throws Error(bad_config) on anything else.
HangEvidence read_hang_json(std::string_view text, const std::string& name);

/// Writes a file that only this user can read, under a name that others can guess, in a folder that others may write:
/// whole or not at all, and through no link of somebody else's. Returns where; empty if it could not be written.
std::string write_private_file(const std::string& text, const std::filesystem::path& folder, const std::string& name);

}  // namespace busbar
