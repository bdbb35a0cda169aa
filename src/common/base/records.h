#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// Texts in lists, packed into one text that processes can exchange. ASCII's own separators keep the fields apart
// (unit separator 0x1f, record separator 0x1e); no field may hold them.

/// One record, with its end.
std::string pack_record(const std::vector<std::string>& fields);

/// The records that were packed one after another.
std::vector<std::vector<std::string>> unpack_records(std::string_view packed);

}  // namespace busbar
