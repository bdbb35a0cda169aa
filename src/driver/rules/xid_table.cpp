#include "driver/rules/xid_table.h"

#include "common/base/embedded_file.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"

#include <yaml-cpp/yaml.h>

#include <array>
#include <vector>

namespace busbar {
namespace {

using Mark = YAML::Mark;
using Node = YAML::Node;
using Text = const std::string&;

/// The words of an action, and how bad that is.
constexpr std::array<std::string_view, 8> kActions{"told",  "ignore", "monitor", "restart",
                                                   "reset", "reboot", "isolate", "vendor"};
constexpr std::array kOutcomes{Outcome::warn, Outcome::pass, Outcome::warn, Outcome::warn,
                               Outcome::fail, Outcome::fail, Outcome::fail, Outcome::fail};

struct Remedies {
  std::vector<std::string> names, texts;
};

XidMeaning read_xid(const YamlPlace& place, const Mark& mark, const Node& node, const Remedies& remedies) {
  XidMeaning xid;
  bool has_action = false;
  read_keys(
      place, mark, node, "xids",
      {value_key(place, "meaning", xid.meaning),
       value_key(place, "by-program", xid.by_program, parse_switch),
       {"remedy", [&](Text key, const Mark& at,
                      const Node& v) { xid.advice = remedies.texts[yaml_word(place, at, v, key, remedies.names)]; }},
       {"action", [&](Text key, const Mark& at, const Node& v) {
          const std::size_t action = yaml_word(place, at, v, key, {kActions.begin(), kActions.end()});
          xid.outcome = kOutcomes[action];
          xid.told = action == 0;
          has_action = true;
        }}});
  if (xid.meaning.empty() || xid.advice.empty() || !has_action) {
    place.fail(mark, "an XID needs meaning, remedy and action");
  }
  return xid;
}

/// XID 154 says itself what is to be done: "... GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot
/// Required)".
Outcome outcome_of_told(std::string_view text) {
  if (text.empty()) return Outcome::warn;
  const std::size_t to = text.rfind(" to ");
  const bool none = to != std::string_view::npos && text.find("(None)", to) != std::string_view::npos;
  return none ? Outcome::pass : Outcome::fail;
}

}  // namespace

std::map<int, XidMeaning> read_xids(std::string_view text, const std::string& file_name) {
  Remedies remedies;
  std::map<int, XidMeaning> xids;
  const YamlPlace place(file_name);
  const auto add_remedy = [&](Text name, const Mark& at, const Node& value) {
    remedies.names.push_back(name);
    remedies.texts.push_back(yaml_scalar(place, at, value, name));
  };
  const auto add_xid = [&](Text number, const Mark& at, const Node& value) {
    int key = 0;
    yaml_set(place, at, "xids", [&] { key = parse_int(number, 1); });
    if (!xids.emplace(key, read_xid(place, at, value, remedies)).second) place.fail(at, number + ": is given twice");
  };
  with_yaml(place, text, [&](const Node& root) {
    read_keys(
        place, root.Mark(), root, "the file",
        {{"schema", [&](Text, const Mark& at, const Node& v) { check_yaml_schema(place, at, v); }},
         {"remedies", [&](Text key, const Mark& at, const Node& v) { for_each_key(place, at, v, key, add_remedy); }},
         {"xids", [&](Text key, const Mark& at, const Node& v) { for_each_key(place, at, v, key, add_xid); }}});
  });
  return xids;
}

const XidMeaning& xid_meaning(int number) {
  static const std::map<int, XidMeaning> xids = read_xids(embedded_xid().front().text, "xid.yaml");
  static const XidMeaning unknown{"not in the table", "NVIDIA's XID catalogue; nvidia-bug-report.sh"};
  const auto found = xids.find(number);
  return found == xids.end() ? unknown : found->second;
}

Outcome xid_outcome(const XidMeaning& xid, std::string_view text) {
  return xid.told ? outcome_of_told(text) : xid.outcome;
}

}  // namespace busbar
