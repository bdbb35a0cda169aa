#pragma once

#include <array>
#include <string_view>

namespace busbar {

/// HMAC-SHA256 of RFC 2104, by OpenSSL or, in a build without it, by our own code.
std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view text);

}  // namespace busbar
