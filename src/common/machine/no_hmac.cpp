// For a build without OpenSSL: SHA-256 of FIPS 180-4 under HMAC of RFC 2104.
#include "common/machine/hmac.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

namespace busbar {
namespace {

using Word = std::uint32_t;
using Digest = std::array<unsigned char, 32>;
constexpr std::size_t kBlock = 64;

/// The first 32 bits of the fractional part of a root of a prime. Long double has 64 bits, which are enough.
Word fraction(long double root) { return static_cast<Word>((root - std::floor(root)) * 4294967296.0L); }

struct Constants {
  std::array<Word, 8> start;
  std::array<Word, kBlock> of_round;

  Constants() {
    std::size_t found = 0;
    for (int n = 2; found < kBlock; ++n) {
      bool is_prime = true;
      for (int d = 2; d * d <= n; ++d) is_prime &= n % d != 0;
      if (!is_prime) continue;
      if (found < start.size()) start[found] = fraction(std::sqrt(static_cast<long double>(n)));
      of_round[found++] = fraction(std::cbrt(static_cast<long double>(n)));
    }
  }
};

void add_block(std::array<Word, 8>& state, const unsigned char* block, const Constants& constants) {
  std::array<Word, kBlock> w{};
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t byte = 0; byte < 4; ++byte) w[i] = w[i] << 8U | block[4 * i + byte];
  for (std::size_t i = 16; i < kBlock; ++i) {
    const Word a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3U) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10U);
  }
  std::array<Word, 8> s = state;  // FIPS 180-4 calls them a to h
  for (std::size_t i = 0; i < kBlock; ++i) {
    const Word first = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                       ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants.of_round[i] + w[i];
    const Word second = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                        ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    std::rotate(s.begin(), s.end() - 1, s.end());
    s[4] += first;
    s[0] = first + second;
  }
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += s[i];
}

Digest sha256(std::string text) {
  static const Constants constants;
  const std::uint64_t bits = std::uint64_t{text.size()} * 8;
  text += '\x80';
  text.resize((text.size() + 8 + kBlock - 1) / kBlock * kBlock - 8, '\0');
  for (unsigned shift = 64; shift > 0; shift -= 8) text += static_cast<char>(bits >> (shift - 8));
  std::array<Word, 8> state = constants.start;
  for (std::size_t at = 0; at < text.size(); at += kBlock)
    add_block(state, reinterpret_cast<const unsigned char*>(text.data()) + at, constants);
  Digest digest{};
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<unsigned char>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::string text_of(const Digest& digest) { return {digest.begin(), digest.end()}; }

}  // namespace

Digest hmac_sha256(std::string_view key, std::string_view text) {
  std::string inner = key.size() > kBlock ? text_of(sha256(std::string(key))) : std::string(key);
  inner.resize(kBlock, '\0');
  std::string outer = inner;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return sha256(outer + text_of(sha256(inner.append(text))));
}

}  // namespace busbar
