#pragma once

#include "common/record/json_values.h"

#include <string>
#include <string_view>

namespace busbar {

/// The document in `text`, which others wrote: the only way to read JSON (scripts/lint/rooms.py sees to it), because
/// what is nested too deep ends the process wherever it is copied or written later. Throws Error(bad_config) that
/// begins with `name` and says why the text is not JSON, or which limit of base/input_limits.h it breaks.
Json parse_json(std::string_view text, const std::string& name);

}  // namespace busbar
