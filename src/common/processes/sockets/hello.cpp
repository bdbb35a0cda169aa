#include "common/processes/sockets/hello.h"

#include <fmt/ranges.h>

#include <array>
#include <span>

namespace busbar {
namespace {

constexpr std::string_view kMeetMagic = "BBMEET01";
static_assert(kHelloHeader == kMeetMagic.size() + 1 + 4);

}  // namespace

HelloInput parse_hello(std::string_view received, HelloKind kind) {
  constexpr HelloInput kBad{HelloInput::State::bad};
  const std::string_view magic = received.substr(0, kMeetMagic.size());
  if (magic != kMeetMagic.substr(0, magic.size())) return kBad;
  if (received.size() > kMeetMagic.size() && received[kMeetMagic.size()] != static_cast<char>(kind)) return kBad;
  if (received.size() < kHelloHeader) return {};
  std::size_t length = 0;
  for (const char c : received.substr(kHelloHeader - 4, 4)) length = length << 8 | static_cast<unsigned char>(c);
  if (length > kMaxHello) return kBad;
  HelloInput input;
  input.expected = kHelloHeader + length;
  if (received.size() > input.expected) return kBad;
  if (received.size() < input.expected) return input;
  input.state = HelloInput::State::whole;
  input.payload = received.substr(kHelloHeader);
  return input;
}

std::string hello_bytes(HelloKind kind, std::string_view payload) {
  if (payload.size() > kMaxHello) {
    throw Error(ExitCode::internal, fmt::format("a message of {} bytes between processes that meet", payload.size()));
  }
  std::string bytes(kMeetMagic);
  bytes += static_cast<char>(kind);
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(payload.size() >> shift & 0xFF);
  return bytes.append(payload);
}

std::string meet_proof(std::string_view key, std::string_view text) {
  const std::array<unsigned char, 32> digest = hmac_sha256(key, text);
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(16), ""));
}

std::string link_proof(std::string_view token, int from, int to) {
  return meet_proof(token, fmt::format("{} links with {}", from, to));
}

}  // namespace busbar
