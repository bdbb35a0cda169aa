#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace busbar {

/// HMAC-SHA256 of RFC 2104, by OpenSSL or, in a build without it, by our own code.
std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view text);

/// Compares in a time that does not reveal where they differ.
inline bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  // Volatile: else a compiler may return at the first difference.
  const volatile char* const other = b.data();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return difference == 0;
}

}  // namespace busbar
