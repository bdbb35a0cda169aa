#include "driver/rules/remedies.h"

#include "common/base/embedded_file.h"
#include "common/base/yaml_node.h"

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

}  // namespace

const std::map<std::string, std::string>& remedies() { return remedies_file().remedies; }

const std::string& remedy(std::string_view name) { return remedies().at(std::string(name)); }

const std::map<std::string, RemarkTexts>& all_remark_texts() { return remedies_file().remarks; }

const RemarkTexts& remark_texts(std::string_view name) { return all_remark_texts().at(std::string(name)); }

}  // namespace busbar
