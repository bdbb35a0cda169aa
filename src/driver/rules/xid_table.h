#pragma once

#include "common/base/outcome.h"

#include <map>
#include <string>
#include <string_view>

namespace busbar {

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

/// Of numbers that the table lacks: a general one.
const XidMeaning& xid_meaning(int number);

/// How bad an XID is for a job that is to run there: what asks for a reset and more fails. `text`: what the driver says
/// with it, which decides about XID 154; empty where it is not known. Pure.
Outcome xid_outcome(const XidMeaning& xid, std::string_view text);

}  // namespace busbar
