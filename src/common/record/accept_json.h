#pragma once

#include "common/record/accept_result.h"

#include <string>
#include <string_view>

namespace busbar {

/// Everything that a run of accept knows, as JSON on one line. Times in seconds, busbw in
/// 1e9 B/s; what is not known is null.
std::string accept_json(const AcceptResult& result);

/// Reads it back; the plan is read again from its text. `name`: of the file, for messages. Throws Error(bad_config)
/// that names the file and what is missing or of another type in it: nothing is taken on trust.
AcceptResult read_accept_json(std::string_view text, const std::string& name);

}  // namespace busbar
