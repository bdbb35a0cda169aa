#include "driver/rules/remedies.h"

#include "common/base/embedded_file.h"
#include "common/base/yaml_node.h"

#include <map>

namespace busbar {
namespace {

using Remedies = std::map<std::string, std::string>;

Remedies read_remedies() {
  Remedies remedies;
  with_yaml("remedies.yaml", embedded_text(embedded_rules(), "remedies.yaml"), [&](const YamlValue& root) {
    const auto add = [&](const YamlValue& value) { remedies.emplace(value.key, value.text()); };
    root.read({{"schema", check_yaml_schema}, {"remedies", [&](const YamlValue& value) { value.each(add); }}});
  });
  return remedies;
}

}  // namespace

const Remedies& remedies() {
  static const Remedies kRemedies = read_remedies();
  return kRemedies;
}

const std::string& remedy(std::string_view name) { return remedies().at(std::string(name)); }

}  // namespace busbar
