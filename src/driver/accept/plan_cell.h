#pragma once

#include "common/base/yaml_node.h"
#include "common/record/accept_plan.h"

#include <vector>

namespace busbar {

// Parts of read_accept_plan, and of other files that come with it.

/// The collective of that name; the file's error names them all where there is none.
const Collective* read_collective(const YamlValue& value);

/// "doctor", "per-host", "pairs", "whole" as the plan writes them.
std::vector<Stage> read_stages(const YamlValue& value);

/// `criteria:` of a cell or of the defaults, over what `criteria` holds already.
void read_criteria(const YamlValue& value, Criteria& criteria);

/// "5%", or {warn: 5%, fail: 10%}, as shares; larger is worse.
Bound read_share_bound(const YamlValue& value);

/// "20s", or {warn: 20s, fail: 1min}, in seconds; longer is worse.
Bound read_time_bound(const YamlValue& value);

/// One entry of `cells:`, or `defaults:` (`is_default`), over what `defaults` holds. Nothing is checked that needs the
/// whole plan.
PlanCell read_plan_cell(const YamlValue& value, const PlanCell& defaults, bool is_default);

}  // namespace busbar
