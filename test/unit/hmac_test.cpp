// Catches: proofs of watchers that no other build of busbar would accept, because OpenSSL computes them and our own
// code, for builds without it, differs.

#include "common/machine/hmac.h"

#define hmac_sha256 own_hmac_sha256
#include "common/machine/no_hmac.cpp"
#undef hmac_sha256

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>
#include <string>

using namespace busbar;

namespace {

std::string hex(const std::array<unsigned char, 32>& digest) { return fmt::format("{:02x}", fmt::join(digest, "")); }

}  // namespace

TEST_CASE("Both codes compute HMAC-SHA256", "[peers]") {
  struct Known {
    std::string key, text, digest;
  };
  // RFC 4231, test cases 1, 2 and 6.
  for (const Known& known :
       {Known{std::string(20, '\x0b'), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        Known{"Jefe", "what do ya want for nothing?",
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        Known{std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"}}) {
    CHECK(hex(hmac_sha256(known.key, known.text)) == known.digest);
    CHECK(hex(own_hmac_sha256(known.key, known.text)) == known.digest);
  }
  std::mt19937 random(1);
  int different = 0;
  for (std::size_t length = 0; length < 300; ++length) {  // every place of the end in a block
    std::string key(random() % 200, '\0'), text(length, '\0');
    for (char& c : key) c = static_cast<char>(random());
    for (char& c : text) c = static_cast<char>(random());
    different += hmac_sha256(key, text) != own_hmac_sha256(key, text);
  }
  CHECK(different == 0);
}
