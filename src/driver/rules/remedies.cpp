#include "driver/rules/remedies.h"

#include "common/base/embedded_file.h"
#include "common/base/units.h"
#include "common/base/yaml_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

struct RemediesFile {
  std::map<std::string, std::string> remedies;
  std::map<std::string, RemarkTexts> remarks;
};

RemediesFile read_remedies() {
  RemediesFile file;
  const auto add_remark = [&](const YamlValue& value) {
    const std::vector<std::string> texts = value.texts();
    if (texts.size() != 2) value.fail("a remark is a reason and a remedy");
    file.remarks.emplace(value.key, RemarkTexts{texts[0], texts[1]});
  };
  const auto add_remedy = [&](const YamlValue& value) { file.remedies.emplace(value.key, value.text()); };
  const auto read = [&](const YamlValue& root) {
    root.read({{"schema", check_yaml_schema},
               {"remedies", [&](const YamlValue& v) { v.each(add_remedy); }},
               {"remarks", [&](const YamlValue& v) { v.each(add_remark); }}});
  };
  with_yaml("remedies.yaml", embedded_text(embedded_rules(), "remedies.yaml"), read, true);
  return file;
}

const RemediesFile& remedies_file() {
  static const RemediesFile kFile = read_remedies();
  return kFile;
}

/// The names of an action, and how bad that is.
constexpr std::array<std::string_view, 8> kActions{"stated", "ignore", "monitor", "restart",
                                                   "reset",  "reboot", "isolate", "vendor"};
constexpr std::array kOutcomes{Outcome::warn, Outcome::pass, Outcome::warn, Outcome::warn,
                               Outcome::fail, Outcome::fail, Outcome::fail, Outcome::fail};

XidMeaning read_xid(const YamlValue& map) {
  XidMeaning xid;
  bool has_action = false;
  map.read({key_of("meaning", xid.meaning),
            key_of("by-program", xid.by_program, parse_switch),
            {"remedy", [&](const YamlValue& v) { xid.advice = v.among(remedies()); }},
            {"action", [&](const YamlValue& v) {
               const std::size_t action = v.word(kActions);
               xid.outcome = kOutcomes[action];
               xid.stated = action == 0;
               has_action = true;
             }}});
  if (xid.meaning.empty() || xid.advice.empty() || !has_action) map.fail("an XID needs meaning, remedy and action");
  return xid;
}

}  // namespace

const std::map<std::string, std::string>& remedies() { return remedies_file().remedies; }

const std::string& remedy(std::string_view name) { return remedies().at(std::string(name)); }

const std::map<std::string, RemarkTexts>& all_remark_texts() { return remedies_file().remarks; }

const RemarkTexts& remark_texts(std::string_view name) { return all_remark_texts().at(std::string(name)); }

std::map<int, XidMeaning> read_xids(std::string_view text, const std::string& file_name) {
  std::map<int, XidMeaning> xids;
  const auto add_xid = [&](const YamlValue& v) {
    int number = 0;
    v.checked([&] { number = parse_int(v.key, 1); });
    if (!xids.emplace(number, read_xid(v)).second) v.fail(fmt::format("{}: is given twice", v.key));
  };
  with_yaml(file_name, text, [&](const YamlValue& root) {
    root.read({{"schema", check_yaml_schema}, {"xids", [&](const YamlValue& v) { v.each(add_xid); }}});
  });
  return xids;
}

const XidMeaning& xid_meaning(int number) {
  static const std::map<int, XidMeaning> xids = read_xids(embedded_text(embedded_rules(), "xid.yaml"), "xid.yaml");
  static const XidMeaning unknown{"not in the table", "look it up in NVIDIA's XID catalog; run nvidia-bug-report.sh"};
  const auto found = xids.find(number);
  return found == xids.end() ? unknown : found->second;
}

Outcome xid_outcome(const XidMeaning& xid, std::string_view text) {
  if (!xid.stated || text.empty()) return xid.stated ? Outcome::warn : xid.outcome;
  // XID 154 itself says what to do: "... GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)".
  const std::size_t to = std::min(text.rfind(" to "), text.size());
  return text.find("(None)", to) == std::string_view::npos ? Outcome::fail : Outcome::pass;
}

}  // namespace busbar
