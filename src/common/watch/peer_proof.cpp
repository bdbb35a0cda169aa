#include "common/watch/peer_proof.h"

#include "common/base/error.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

constexpr std::string_view kHello("BBPH\x03", 5);  // with the version
constexpr std::string_view kAnswer = "BBPC";

std::string proof(std::string_view token, std::string text, std::string_view payload) {
  text += payload;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &length) == nullptr) {
    throw Error(ExitCode::internal, "libcrypto computes no HMAC-SHA256");
  }
  std::string hex;
  for (std::size_t i = 0; i < kTokenLength / 2; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

PeerGreeting parse(std::string_view received, std::string_view magic, std::size_t length) {
  const std::size_t n = std::min(received.size(), magic.size());
  if (received.substr(0, n) != magic.substr(0, n)) return {.bad = true, .text = {}};
  if (received.size() < length) return {};
  return {.whole = true, .text = received.substr(magic.size(), length - magic.size())};
}

}  // namespace

std::string request_proof(std::string_view token, std::string_view nonce, std::string_view to, PeerKind kind,
                          std::string_view payload) {
  return proof(token, fmt::format("client {} {} {}\n", nonce, to, static_cast<int>(kind)), payload);
}

std::string reply_proof(std::string_view token, std::string_view nonce, std::string_view to, std::string_view payload) {
  return proof(token, fmt::format("server {} {}\n", nonce, to), payload);
}

std::string asked_address(std::string_view ip, std::uint16_t port) { return fmt::format("{} {}", ip, port); }

std::string hello_bytes(std::string_view nonce) { return std::string(kHello) += nonce; }
std::string answer_bytes(std::string_view proof) { return std::string(kAnswer) += proof; }

std::string proven_request(std::string_view token, std::string_view to, std::string_view nonce, PeerKind kind,
                           std::string_view payload) {
  return hello_bytes(nonce) + request_bytes(kind, request_proof(token, nonce, to, kind, payload), payload);
}

PeerGreeting parse_hello(std::string_view received) { return parse(received, kHello, kHelloLength); }
PeerGreeting parse_answer(std::string_view received) { return parse(received, kAnswer, kAnswerLength); }

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace busbar
