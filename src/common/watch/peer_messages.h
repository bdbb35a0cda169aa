#pragma once

#include "common/watch/hang_evidence.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace busbar {

// The bytes with which watchers talk to each other while the main threads may be stuck in MPI: over TCP, bounded. A
// connection carries one request and one reply:
//   request: "BBPQ" version kind 0 0 length(4, big end first) nonce(32) proof(32) payload
//   reply:   "BBPR" length(4) proof(32) payload
// The client closes when it has the reply.
//
// Both prove that they know the job's token without sending it: a process that takes a dead rank's port, or
// sits on the way, gets nothing with which it could speak for the job, cannot answer for the dead, and cannot change a
// word. Proofs are
// HMAC-SHA256 under the token of who proves, the nonce, the address that was asked and what is said, cut to 128 bits,
// in hexadecimal. A listener hears a nonce once. It gives no challenge of its own, for which a request would have to
// wait: a last word must reach who is too busy to answer before its speaker has gone.

inline constexpr std::size_t kMaxRequest = 64 * 1024;
inline constexpr std::size_t kMaxReply = 4 * 1024 * 1024;
inline constexpr std::size_t kTokenLength = 32;  ///< as that of a nonce and of a proof
inline constexpr std::size_t kNonceAt = 12;      ///< of a request
inline constexpr std::size_t kRequestHeader = kNonceAt + 2 * kTokenLength;
inline constexpr std::size_t kReplyHeader = 8 + kTokenLength;

inline constexpr std::size_t kSmallEcho = 64;  ///< with its header below 400 bytes: passes any path
inline constexpr std::size_t kLargeEcho = 32 * 1024;

// What watchers ask each other.
inline constexpr std::string_view kAskEvidence = "evidence";  ///< the host as encode() writes it; begins a closer look
inline constexpr std::string_view kPing = "ping";
inline constexpr std::string_view kAlarm = "alarm";    ///< somebody's limit is over: collect
inline constexpr std::string_view kTold = "told";      ///< what there is to say of the job's end has been said
inline constexpr std::string_view kForget = "forget";  ///< the same, and nobody needs a record of it
inline constexpr std::string_view kStopAndKeep = "stop-and-keep";  ///< the same, leaving the flight record
inline constexpr std::string_view kStop = "stop";                  ///< leave with exit code 4

/// What alarmed watchers answer.
inline constexpr std::string_view kComing = "coming";
inline constexpr std::string_view kMoves = "moves";  ///< looked a moment ago: the job moves

enum class PeerKind : std::uint8_t {
  message,  ///< for the handler
  echo,     ///< the server itself sends the payload back
};

/// What has arrived on a connection so far.
struct PeerInput {
  enum class State : std::uint8_t {
    incomplete,
    whole,
    bad,  ///< whatever follows, this is nothing for us
  };
  State state = State::incomplete;
  std::size_t expected = 0;  ///< bytes of the message with its header; 0: not known yet
  PeerKind kind = PeerKind::message;
  std::string_view nonce = {};  ///< of a request; where whole; into `received`, as the next
  std::string_view proof = {};
  std::string_view payload = {};
};

/// Bad as soon as the first wrong byte is there. Whether the proof is right is for the caller to see.
PeerInput parse_request(std::string_view received);
PeerInput parse_reply(std::string_view received);

/// Throws Error(internal) where nonce or proof has not kTokenLength characters or the payload exceeds kMaxRequest.
std::string request_bytes(PeerKind kind, std::string_view nonce, std::string_view proof, std::string_view payload);
/// Empty where the payload exceeds kMaxReply.
std::string reply_bytes(std::string_view proof, std::string_view payload);

/// `to`: asked_address().
std::string request_proof(std::string_view token, std::string_view nonce, std::string_view to, PeerKind kind,
                          std::string_view payload);
std::string reply_proof(std::string_view token, std::string_view nonce, std::string_view to, std::string_view payload);
std::string asked_address(std::string_view ip, std::uint16_t port);

/// What a client sends that knows the token.
std::string proven_request(std::string_view token, std::string_view to, std::string_view nonce, PeerKind kind,
                           std::string_view payload);

/// In a time that does not tell where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// A host's evidence as one message, at most kMaxReply bytes. Control characters in texts become spaces, texts are cut
/// at 1000 bytes, numbers that are none become 0 (net_bytes_per_s -1); where the whole would be too long, the finished
/// steps are left out, then ranks from the end on.
std::string encode(const HostEvidence& host);

/// Back again. Throws Error(internal) on anything else than what encode() makes.
HostEvidence decode_host(std::string_view message);

}  // namespace busbar
