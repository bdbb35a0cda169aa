#include "common/watch/peer_messages.h"

#include "common/base/error.h"
#include "common/base/packed_fields.h"
#include "common/evidence/evidence_fields.h"
#include "common/machine/hmac.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace busbar {
namespace {

constexpr std::string_view kRequestMagic("BBPQ\x05", 5), kReplyMagic("BBPR\x05", 5);  // with the version
constexpr std::size_t kKindAt = 5, kLengthAt = 8;

std::string header_bytes(std::string_view magic, PeerKind kind, std::size_t length) {
  std::string bytes(magic);
  bytes += static_cast<char>(kind);
  bytes.append(2, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(length >> shift & 0xff);
  return bytes;
}

/// `last`: the last kind there is. `header`: the bytes before the payload; the proof is their end. `most`: of payload.
PeerInput parse(std::string_view received, std::string_view magic, PeerKind last, std::size_t header,
                std::size_t most) {
  constexpr PeerInput kBad{PeerInput::State::bad};
  if (!magic.starts_with(received.substr(0, magic.size()))) return kBad;
  if (received.size() < header) return {};
  const auto kind = static_cast<unsigned char>(received[kKindAt]);
  std::size_t length = 0;
  for (const char byte : received.substr(kLengthAt, 4)) length = length << 8 | static_cast<unsigned char>(byte);
  if (kind > static_cast<unsigned char>(last) || received[kKindAt + 1] != 0 || received[kKindAt + 2] != 0 ||
      length > most || received.size() > header + length) {
    return kBad;
  }
  PeerInput input;
  input.kind = static_cast<PeerKind>(kind);
  input.expected = header + length;
  if (received.size() < input.expected) return input;
  input.state = PeerInput::State::whole;
  input.proof = received.substr(header - kTokenLength, kTokenLength);
  input.payload = received.substr(header);
  return input;
}

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

std::string proof(std::string_view token, std::string text, std::string_view payload) {
  text += payload;
  const auto digest = hmac_sha256(token, text);
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(kTokenLength / 2), ""));
}

}  // namespace

PeerInput parse_request(std::string_view received) {
  PeerInput input = parse(received, kRequestMagic, PeerKind::echo, kRequestHeader, kMaxRequest);
  if (input.state == PeerInput::State::whole) input.nonce = received.substr(kNonceAt, kTokenLength);
  return input;
}

PeerInput parse_reply(std::string_view received) {
  return parse(received, kReplyMagic, PeerKind::message, kReplyHeader, kMaxReply);
}

std::string request_bytes(PeerKind kind, std::string_view nonce, std::string_view proof, std::string_view payload) {
  if (nonce.size() != kTokenLength || proof.size() != kTokenLength || payload.size() > kMaxRequest) {
    throw Error(ExitCode::internal, fmt::format("a request to a watcher with a token of {} characters and {} bytes",
                                                proof.size(), payload.size()));
  }
  return header_bytes(kRequestMagic, kind, payload.size()).append(nonce).append(proof).append(payload);
}

std::string reply_bytes(std::string_view proof, std::string_view payload) {
  if (payload.size() > kMaxReply) return {};
  return header_bytes(kReplyMagic, PeerKind::message, payload.size()).append(proof).append(payload);
}

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
