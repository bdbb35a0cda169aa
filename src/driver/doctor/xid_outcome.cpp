#include "driver/doctor/xid_outcome.h"

namespace busbar {
namespace {

/// XID 154 says itself what is to be done: "... GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot
/// Required)".
Outcome outcome_of_told(std::string_view text) {
  if (text.empty()) return Outcome::warn;
  const std::size_t to = text.rfind(" to ");
  const bool none = to != std::string_view::npos && text.find("(None)", to) != std::string_view::npos;
  return none ? Outcome::pass : Outcome::fail;
}

}  // namespace

Outcome outcome_of(const XidMeaning& xid, std::string_view text) {
  switch (xid.action) {
    case XidAction::ignore:
      return Outcome::pass;
    case XidAction::told:
      return outcome_of_told(text);
    case XidAction::unknown:
    case XidAction::monitor:
    case XidAction::restart:
      return Outcome::warn;
    case XidAction::reset:
    case XidAction::reboot:
    case XidAction::isolate:
    case XidAction::vendor:
      return Outcome::fail;
  }
  return Outcome::warn;
}

}  // namespace busbar
