#include "common/watch/peer_messages.h"

#include "common/base/error.h"
#include "common/base/packed_fields.h"
#include "common/evidence/evidence_fields.h"
#include "common/machine/hmac.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

namespace busbar {
namespace {

constexpr std::string_view kRequestMagic("BBPQ\x04", 5);  // with the version
constexpr std::string_view kReplyMagic = "BBPR";
constexpr std::size_t kKindAt = 5, kRequestLengthAt = 8, kReplyLengthAt = 4;

std::string length_bytes(std::size_t length) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(length >> shift & 0xff);
  return bytes;
}

std::size_t length_at(std::string_view received, std::size_t at) {
  std::size_t length = 0;
  for (std::size_t i = at; i < at + 4; ++i) length = length << 8 | static_cast<unsigned char>(received[i]);
  return length;
}

bool begins_alike(std::string_view received, std::string_view magic) {
  const std::size_t n = std::min(received.size(), magic.size());
  return received.substr(0, n) == magic.substr(0, n);
}

constexpr PeerInput kBad{PeerInput::State::bad};

PeerInput with_payload(PeerInput input, std::string_view received, std::size_t header, std::size_t length) {
  input.expected = header + length;
  if (received.size() > input.expected) return kBad;
  if (received.size() == input.expected) {
    input.state = PeerInput::State::whole;
    input.proof = received.substr(header - kTokenLength, kTokenLength);
    input.payload = received.substr(header);
  }
  return input;
}

}  // namespace

PeerInput parse_request(std::string_view received) {
  if (!begins_alike(received, kRequestMagic)) return kBad;
  if (received.size() < kRequestHeader) return {};
  const auto kind = static_cast<unsigned char>(received[kKindAt]);
  const std::size_t length = length_at(received, kRequestLengthAt);
  if (kind > static_cast<unsigned char>(PeerKind::echo) || received[kKindAt + 1] != 0 || received[kKindAt + 2] != 0 ||
      length > kMaxRequest) {
    return kBad;
  }
  PeerInput input;
  input.nonce = received.substr(kNonceAt, kTokenLength);
  input.kind = static_cast<PeerKind>(kind);
  return with_payload(input, received, kRequestHeader, length);
}

PeerInput parse_reply(std::string_view received) {
  if (!begins_alike(received, kReplyMagic)) return kBad;
  if (received.size() < kReplyHeader) return {};
  const std::size_t length = length_at(received, kReplyLengthAt);
  return length > kMaxReply ? kBad : with_payload({}, received, kReplyHeader, length);
}

std::string request_bytes(PeerKind kind, std::string_view nonce, std::string_view proof, std::string_view payload) {
  if (nonce.size() != kTokenLength || proof.size() != kTokenLength || payload.size() > kMaxRequest) {
    throw Error(ExitCode::internal, fmt::format("a request to a watcher with a token of {} characters and {} bytes",
                                                proof.size(), payload.size()));
  }
  std::string bytes(kRequestMagic);
  bytes += static_cast<char>(kind);
  bytes.append(2, '\0');
  bytes += length_bytes(payload.size());
  return bytes.append(nonce).append(proof).append(payload);
}

std::string reply_bytes(std::string_view proof, std::string_view payload) {
  if (payload.size() > kMaxReply) return {};
  return (std::string(kReplyMagic) + length_bytes(payload.size())).append(proof).append(payload);
}

namespace {

constexpr std::string_view kTitle = "busbar host evidence 4\n";  // the packed fields follow
constexpr std::size_t kMaxText = 1000;

[[noreturn]] void reject(std::string_view why) {
  throw Error(ExitCode::internal, fmt::format("a watcher's message cannot be read: {}", why));
}

/// Turns every field into something that may be sent.
template <class T>
void tidy(T& field) {
  if constexpr (std::is_same_v<T, char>) {
    field = static_cast<unsigned char>(field) < ' ' || field == 0x7f ? ' ' : field;
  } else if constexpr (std::is_same_v<T, double>) {
    field = std::isfinite(field) ? field : 0;
  } else if constexpr (MaybeHeld<T>) {
    if (field) tidy(*field);
  } else if constexpr (ManyItems<T>) {
    if constexpr (std::is_same_v<T, std::string>) field.resize(std::min(field.size(), kMaxText));
    for (auto& item : field) tidy(item);
  } else if constexpr (std::is_class_v<T>) {
    visit_fields([](const char*, auto& inner) { tidy(inner); }, field);
  }
}

HostEvidence tidied(HostEvidence host) {
  if (!std::isfinite(host.net_bytes_per_s)) host.net_bytes_per_s = -1;
  tidy(host);
  return host;
}

std::string message_of(const HostEvidence& host) { return std::string(kTitle) + pack_fields(host); }

}  // namespace

std::string encode(const HostEvidence& host) {
  HostEvidence sent = tidied(host);
  std::string message = message_of(sent);
  if (message.size() <= kMaxReply) return message;
  for (RankEvidence& rank : sent.ranks) rank.flight.finished.clear();
  while ((message = message_of(sent)).size() > kMaxReply) {
    if (sent.ranks.empty()) {
      sent.troubles.clear();
      sent.probes.clear();
    }
    sent.ranks.resize(sent.ranks.size() / 2);
  }
  return message;
}

HostEvidence decode_host(std::string_view message) {
  if (message.size() > kMaxReply) reject("it is too long");
  if (!message.starts_with(kTitle)) reject("its title is another");
  HostEvidence host = unpack_fields<HostEvidence>(message.substr(kTitle.size()));
  // encode() never makes anything else that reads the same (a string with control characters, a number that is none).
  if (message_of(tidied(host)) != message) reject("its writer was another");
  return host;
}

namespace {

std::string proof(std::string_view token, std::string text, std::string_view payload) {
  text += payload;
  const auto digest = hmac_sha256(token, text);
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(kTokenLength / 2), ""));
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

std::string proven_request(std::string_view token, std::string_view to, std::string_view nonce, PeerKind kind,
                           std::string_view payload) {
  return request_bytes(kind, nonce, request_proof(token, nonce, to, kind, payload), payload);
}

}  // namespace busbar
