#pragma once

#include "common/base/outcome.h"
#include "common/machine/xid_table.h"

#include <string_view>

namespace busbar {

/// How bad an XID is for whoever wants to run there: what asks for a reset and more fails. `text`: what the driver says
/// with it, which decides about XID 154; empty where it is not known. Pure.
Outcome outcome_of(const XidMeaning& xid, std::string_view text);

}  // namespace busbar
