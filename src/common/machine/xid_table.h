#pragma once

#include "common/base/outcome.h"

#include <cstdint>
#include <string_view>

namespace busbar {

/// What an XID asks for, after the tables of AWS (driver r590), Azure and NVIDIA. They disagree on some (63, 92).
enum class XidAction : std::uint8_t {
  unknown,
  ignore,   ///< a note, or what follows an earlier XID
  monitor,  ///< may pass
  restart,  ///< the program: the GPU goes on
  reset,    ///< the GPU
  reboot,   ///< the host
  isolate,  ///< no job there until it is repaired
  vendor,   ///< replace, or ask
  told,     ///< what the line itself says
};

/// What an XID of NVIDIA's driver means and what to do, from NVIDIA's XID
/// catalogue.
struct XidMeaning {
  int number = -1;
  std::string_view meaning;
  std::string_view advice;
  XidAction action = XidAction::unknown;
};

/// Of numbers that the table lacks: a general one.
const XidMeaning& xid_meaning(int number);

/// How bad an XID is for whoever wants to run there: what asks for a reset and more fails. `text`: what the driver says
/// with it, which decides about XID 154; empty where it is not known. Pure.
Outcome xid_outcome(const XidMeaning& xid, std::string_view text);

}  // namespace busbar
