#pragma once

#include "common/evidence/hang_evidence.h"
#include "common/watch/peer_address.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// The bytes that watchers exchange while the main threads may be stuck in MPI: over TCP, bounded. A connection carries
// one request and one reply:
//   request: "BBPQ" version kind 0 0 length(4, big end first) nonce(32) proof(32) payload
//   reply:   "BBPR" version 0 0 0 length(4) proof(32) payload
// The client closes when it has the reply.
//
// Both prove that they know the job's token without sending it. So a process that takes a dead rank's port, or is on
// the way, cannot speak for the job, cannot answer for the dead, and cannot change a word. A proof is HMAC-SHA256 under
// the sender's token over the nonce, the address that was asked and the payload, cut to 128 bits, in hexadecimal. A
// listener accepts a nonce once. It sends no challenge of its own, because a request would have to wait for it: a last
// message must reach a busy process before its sender has gone.

inline constexpr std::size_t kMaxRequest = 64 * 1024;
inline constexpr std::size_t kMaxReply = 4 * 1024 * 1024;
inline constexpr std::size_t kTokenLength = 32;  ///< also that of a nonce and of a proof
inline constexpr std::size_t kNonceAt = 12;      ///< of a request; of a reply the proof is there
inline constexpr std::size_t kRequestHeader = kNonceAt + 2 * kTokenLength;
inline constexpr std::size_t kReplyHeader = kNonceAt + kTokenLength;

inline constexpr std::size_t kSmallEcho = 64;  ///< with its header below 400 bytes: passes any path
inline constexpr std::size_t kLargeEcho = 32 * 1024;

// What watchers ask each other.
inline constexpr std::string_view kAskEvidence = "evidence";  ///< from encode(); begins a close observation
inline constexpr std::string_view kPing = "ping";
inline constexpr std::string_view kAlarm = "alarm";                ///< a limit is over: collect
inline constexpr std::string_view kReported = "reported";          ///< the job's end has been reported
inline constexpr std::string_view kForget = "forget";              ///< the same, and nobody needs a record of it
inline constexpr std::string_view kStopAndKeep = "stop-and-keep";  ///< the same, leaving the flight record
inline constexpr std::string_view kStop = "stop";                  ///< leave with exit code 4

/// The answers of alarmed watchers.
inline constexpr std::string_view kComing = "coming";
inline constexpr std::string_view kMoves = "moves";  ///< checked a moment ago: the job moves

enum class PeerKind : std::uint8_t {
  message,  ///< for the handler
  echo,     ///< the server itself sends the payload back
};

/// What has arrived on a connection so far.
struct PeerInput {
  enum class State : std::uint8_t {
    incomplete,
    whole,
    bad,  ///< whatever follows, this is not for us
  };
  State state = State::incomplete;
  std::size_t expected = 0;  ///< bytes of the message with its header; 0: not known yet
  PeerKind kind = PeerKind::message;
  std::string_view nonce = {};  ///< of a whole request; into `received`, as the next
  std::string_view proof = {};
  std::string_view payload = {};
};

/// Bad as soon as the first wrong byte is there. The caller checks the proof.
PeerInput parse_request(std::string_view received);
PeerInput parse_reply(std::string_view received);

/// Throws Error(internal) if nonce or proof does not have kTokenLength characters or the payload exceeds kMaxRequest.
std::string request_bytes(PeerKind kind, std::string_view nonce, std::string_view proof, std::string_view payload);
/// Empty if the payload exceeds kMaxReply.
std::string reply_bytes(std::string_view proof, std::string_view payload);

/// `to`: asked_address().
std::string request_proof(std::string_view token, std::string_view nonce, std::string_view to, PeerKind kind,
                          std::string_view payload);
std::string reply_proof(std::string_view token, std::string_view nonce, std::string_view to, std::string_view payload);
std::string asked_address(std::string_view ip, std::uint16_t port);

/// The request of a client that knows the token.
std::string proven_request(std::string_view token, std::string_view to, std::string_view nonce, PeerKind kind,
                           std::string_view payload);

/// A host's evidence as one message of at most kMaxReply bytes. Control characters in strings become spaces, strings
/// are cut at 1000 bytes, numbers that are none become 0 (net_bytes_per_s -1). If the whole is too long, the finished
/// steps are left out, then ranks from the end on.
std::string encode(const HostEvidence& host);

/// Decodes it. Throws Error(internal) for anything that encode() does not make.
HostEvidence decode_host(std::string_view message);

struct PeerReply {
  PeerProbe::Result result = PeerProbe::Result::timed_out;
  std::string text;        ///< if not ok: why, for people
  bool connected = false;  ///< if timed out: its system took the connection, but no process answered
};

/// Asks all at once (at most 256 connections at a time) and waits until all answered or `limit` is over; replies in the
/// order of `peers`. If there are more peers than connections, those that do not answer give way to those not yet
/// asked. A peer that cuts the connection may just be busy: it is asked up to three times, then it counts as refused.
/// Any thread. Throws Error for a request above kMaxRequest.
std::vector<PeerReply> ask_peers(std::span<const PeerAddress> peers, const std::string& token, std::string_view request,
                                 std::chrono::milliseconds limit);

/// How this host reaches each of them, in the order of `peers`: connects, sends a few bytes, then 32 KiB, and expects
/// them back. A peer whose interface's MTU has shrunk since it began to listen keeps the 32 KiB. Any thread. `limit` is
/// for all of it; below two seconds a busy path may become timed_out or large_lost.
std::vector<PeerProbe> probe_peers(std::span<const PeerAddress> peers, const std::string& token,
                                   std::chrono::milliseconds limit);

}  // namespace busbar
