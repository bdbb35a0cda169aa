#pragma once

#include "common/base/yaml_node.h"
#include "common/record/accept_plan.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// Parts of read_accept_plan, and of other files that come with it.

/// The collective of that name; the file's error names them all where there is none.
const Collective* read_collective(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node);

/// "doctor", "per-host", "pairs", "whole" as the plan writes them.
std::vector<Stage> read_stages(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node);

/// `criteria:` of a cell or of the defaults, over what `criteria` holds already.
void read_criteria(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, Criteria& criteria);

/// "5%", or {warn: 5%, fail: 10%}, as shares; larger is worse.
Bound read_share_bound(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key);

/// "20s", or {warn: 20s, fail: 1min}, in seconds; longer is worse.
Bound read_time_bound(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node, std::string_view key);

/// One entry of `cells:`, or `defaults:` (`is_default`), over what `defaults` holds. Nothing is checked that needs the
/// whole plan.
PlanCell read_plan_cell(const YamlPlace& place, const YAML::Mark& mark, const YAML::Node& node,
                        const PlanCell& defaults, bool is_default);

}  // namespace busbar
