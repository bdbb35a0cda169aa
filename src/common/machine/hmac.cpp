#include "common/machine/hmac.h"

#include "common/base/error.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace busbar {

std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, 32> digest{};
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
           text.size(), digest.data(), &length) == nullptr) {
    throw Error(ExitCode::internal, "libcrypto computes no HMAC-SHA256");
  }
  return digest;
}

}  // namespace busbar
