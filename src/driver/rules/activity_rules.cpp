#include "driver/rules/activity_rules.h"

#include "common/base/embedded_file.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"
#include "common/machine/mapped_nccl.h"

#include <algorithm>
#include <array>

namespace busbar {
namespace {

/// In the order of Activity::Kind.
constexpr std::array<std::string_view, 8> kActivityKinds{"unknown", "waiting", "joining", "elsewhere",
                                                         "between", "library", "leaving", "idle"};
static_assert(kActivityKinds.size() == static_cast<std::size_t>(Activity::Kind::idle) + 1);

ActivityRule read_activity(const YamlValue& map) {
  ActivityRule rule;
  rule.id = map.key;
  map.read({{"kind", [&](const YamlValue& v) { rule.kind = static_cast<Activity::Kind>(v.word(kActivityKinds)); }},
            key_of("doing", rule.doing),
            key_of("above", rule.above, parse_switch),
            key_of("named", rule.named, parse_switch),
            key_of("blocked", rule.blocked, parse_switch),
            key_of("workers", rule.workers, parse_switch),
            key_of("slow", rule.slow, parse_switch),
            key_of("note", rule.note),
            key_of("before", rule.before, [](const std::string& text) { return nccl_version_number(text); }),
            key_of("machine", rule.machine),
            key_of("frames", rule.frames)});
  const auto is_empty = [](const std::string& part) { return part.empty() || part == "^"; };
  if (rule.doing.empty() || rule.frames.empty() || std::ranges::any_of(rule.frames, is_empty))
    map.fail(rule.id + ": doing and frames, none of them empty, are needed");
  return rule;
}

bool fits_any(std::string_view frame, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) {
    return part.starts_with('^') ? frame.starts_with(part.substr(1)) : frame.find(part) != frame.npos;
  });
}

}  // namespace

ActivityRules read_activity_rules(std::string_view text, const std::string& file_name) {
  ActivityRules rules;
  with_yaml(file_name, text, [&](const YamlValue& root) {
    root.read(
        {{"schema", check_yaml_schema},
         {"activities",
          [&](const YamlValue& v) { v.each([&](const YamlValue& one) { rules.all.push_back(read_activity(one)); }); }},
         key_of("libraries", rules.libraries)});
  });
  return rules;
}

const ActivityRules& activity_rules() {
  static const ActivityRules rules =
      read_activity_rules(embedded_text(embedded_rules(), "activities.yaml"), "activities.yaml");
  return rules;
}

const ActivityFinder::Known& ActivityFinder::know(const std::string& frame) {
  const auto [at, added] = known_.try_emplace(frame);
  if (!added) return at->second;
  for (const ActivityRule& rule : activity_rules().all) {
    if (fits_any(frame, rule.frames)) at->second.rules.push_back(&rule);
  }
  at->second.of_library = fits_any(frame, activity_rules().libraries);
  return at->second;
}

ActivityFinder::Found ActivityFinder::find(const std::vector<std::string>& frames, bool blocked) {
  Found found;
  const ActivityRule* above = nullptr;
  std::vector<const ActivityRule*> met;  // the innermost first
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    const Known& known = know(*frame);
    for (const ActivityRule* rule : known.rules) {
      if (rule->blocked && !blocked) continue;
      if (rule->above && (above == nullptr || rule < above)) above = rule;
      if (met.empty()) found.frame = *frame;
      met.push_back(rule);
      if (rule->named) found.call = frame->substr(0, frame->find_first_of(" ("));  // the outermost stays
    }
    if (found.site.empty() && !known.of_library && frame->find(".py:") != frame->npos) found.site = *frame;
  }
  if (!met.empty()) {
    found.rule = met.front();
    for (const ActivityRule* rule : met) {
      if (rule->kind == found.rule->kind && rule < found.rule) found.rule = rule;
    }
  }
  if (above != nullptr) found.rule = above;
  if (found.rule == nullptr || !found.rule->named) found.call.clear();
  return found;
}

}  // namespace busbar
