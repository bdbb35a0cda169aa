#pragma once

#include "common/backends/backend_traits.h"
#include "common/base/yaml_node.h"
#include "common/record/accept_plan.h"

#include <string>
#include <string_view>

namespace busbar {

/// Reads a plan. Throws Error(bad_config) that names file, line and, for an unknown key, the valid ones; nothing else,
/// whatever the bytes are. Cells have --stat on, and what their criteria need (--per-rank, --show-algo).
AcceptPlan read_accept_plan(std::string_view text, const std::string& file_name);

/// Throws Error(bad_config) naming file, line, cell and setting if a cell's environment needs launches of its own and
/// there are none.
void check_environment_needs(const AcceptPlan& plan, bool has_launch);

/// Why the cell is not measured with this backend; empty: it is.
std::string why_not_here(const PlanCell& cell, const BackendTraits& backend);

// For other files that come with a plan.

/// The collective of that name; the file's error names them all if there is none.
const Collective* read_collective(const YamlValue& value);

/// A bandwidth above 0 [1e9 B/s]. Throws Error(bad_config).
double parse_gigabytes(const std::string& text);

}  // namespace busbar
