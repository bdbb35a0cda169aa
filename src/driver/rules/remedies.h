#pragma once

#include "common/base/outcome.h"

#include <map>
#include <string>
#include <string_view>

namespace busbar {

/// All of configs/rules/remedies.yaml, by name.
const std::map<std::string, std::string>& remedies();

/// The one of that name. The code has the names: one that is missing is an error that a unit test finds.
const std::string& remedy(std::string_view name);

/// What doctor says if something is not as it should be; {0}, {1} ... stand for facts.
struct RemarkTexts {
  std::string reason;
  std::string remedy;
};

/// All of the file's remarks, by name.
const std::map<std::string, RemarkTexts>& all_remark_texts();

/// The one of that name; missing names as for remedies.
const RemarkTexts& remark_texts(std::string_view name);

/// What an XID of NVIDIA's driver means and what to do.
struct XidMeaning {
  std::string meaning;
  std::string advice;
  Outcome outcome = Outcome::warn;
  bool stated = false;      ///< the line itself says what is to be done
  bool by_program = false;  ///< a program alone may cause it
};

/// Reads configs/rules/xid.yaml: by number. Throws Error(bad_config) naming file and line.
std::map<int, XidMeaning> read_xids(std::string_view text, const std::string& file_name);

/// A general one for numbers that the table lacks.
const XidMeaning& xid_meaning(int number);

/// How bad an XID is for a job that will run there: what needs a reset or more fails. `text`: what the driver says
/// with it, which decides about XID 154; empty if unknown. Pure.
Outcome xid_outcome(const XidMeaning& xid, std::string_view text);

}  // namespace busbar
