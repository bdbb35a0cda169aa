#pragma once

#include <string_view>

namespace busbar {

/// What an XID of NVIDIA's driver means and what to do, from NVIDIA's XID
/// catalogue.
struct XidMeaning {
  int number = -1;
  std::string_view meaning;
  std::string_view advice;
};

/// Of numbers that the table lacks: a general one.
const XidMeaning& xid_meaning(int number);

}  // namespace busbar
