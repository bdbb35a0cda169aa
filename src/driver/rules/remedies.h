#pragma once

#include <map>
#include <string>
#include <string_view>

namespace busbar {

/// All of configs/rules/remedies.yaml, by name.
const std::map<std::string, std::string>& remedies();

/// The one of that name. The names stand in the code: one that is not there is an error of the program, which a unit
/// test finds.
const std::string& remedy(std::string_view name);

/// What doctor says where something is not as it should be; {0}, {1} ... stand for facts.
struct RemarkTexts {
  std::string reason;
  std::string remedy;
};

/// All of the file's remarks, by name.
const std::map<std::string, RemarkTexts>& all_remark_texts();

/// The one of that name; names that are not there as for remedies.
const RemarkTexts& remark_texts(std::string_view name);

}  // namespace busbar
