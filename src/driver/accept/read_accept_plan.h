#pragma once

#include "common/backends/backend_traits.h"
#include "common/base/yaml_node.h"
#include "common/record/accept_plan.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Reads a plan. Throws Error(bad_config) that names file, line and, for an unknown key, the valid ones; nothing else,
/// whatever the bytes are. Cells have --stat on, and what their criteria need (--per-rank, --show-algo).
AcceptPlan read_accept_plan(std::string_view text, const std::string& file_name);

/// Throws Error(bad_config) naming file, line, cell and setting where a cell's environment needs launches of its own
/// and there are none.
void check_environment_needs(const AcceptPlan& plan, bool has_launch);

/// Why the cell is not measured with this backend; empty: it is.
std::string why_not_here(const PlanCell& cell, const BackendTraits& backend);

/// AcceptPlan::digest, of everything but what the launch asks for beside the plan.
std::uint64_t digest_of(const AcceptPlan& plan);

// Parts of read_accept_plan (plan_cell.cpp), and of other files that come with it.

/// The collective of that name; the file's error names them all where there is none.
const Collective* read_collective(const YamlValue& value);

/// "doctor", "per-host", "pairs", "whole" as the plan writes them.
std::vector<Stage> read_stages(const YamlValue& value);

/// A bandwidth above 0 [1e9 B/s]. Throws Error(bad_config).
double parse_gigabytes(const std::string& text);

/// "5%", or {warn: 5%, fail: 10%}, as shares; larger is worse.
Bound read_share_bound(const YamlValue& value);

/// "20s", or {warn: 20s, fail: 1min}, in seconds; longer is worse.
Bound read_time_bound(const YamlValue& value);

/// One entry of `cells:`, or `defaults:` (`is_default`), over what `defaults` holds. Nothing is checked that needs the
/// whole plan.
PlanCell read_plan_cell(const YamlValue& value, const PlanCell& defaults, bool is_default);

}  // namespace busbar
