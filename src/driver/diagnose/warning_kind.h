#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace busbar {

/// What a warning of NCCL is about: causes before what follows from them.
enum class WarningKind : std::uint8_t {
  hardware,
  unreachable,
  resource,
  config,
  call_mismatch,  ///< NCCL says that ranks called differently
  size_mismatch,  ///< the transport got other sizes than it expected
  fallout,        ///< a GPU context that an earlier error poisoned
  victim,         ///< somebody else went away
  harmless,
  other,
};

struct WarningRule {
  WarningKind kind = WarningKind::other;
  std::string_view first, second;  ///< both stand in the warning, letters of
                                   ///< either case; second may be empty
  std::string_view meaning;        ///< for people, without the rank; empty: the
                                   ///< warning speaks for itself
  std::string_view advice;         ///< what to do next
};

/// The first rule that fits, in an order in which special ones stand before
/// general ones. `file`: where in NCCL.
const WarningRule& classify_warning(std::string_view file, std::string_view text);

/// Numbers, addresses and names of segments replaced, so that warnings of one
/// kind become equal.
std::string warning_shape(std::string_view text);

}  // namespace busbar
