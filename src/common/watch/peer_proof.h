#pragma once

#include "common/watch/peer_messages.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace busbar {

// How watchers prove that they know the job's token without sending it: whoever sits on a dead rank's port, or on the
// way, gets nothing with which he could speak for the job, cannot answer for the dead, and cannot change a word.
//   client: "BBPH" version nonce(32), and a request (peer_messages.h) with the client's proof
//   server: "BBPC" proof(32), and the reply
// Proofs are HMAC-SHA256 under the token of who proves, the nonce, the address that was asked and what is said, cut to
// 128 bits, in hexadecimal. A listener hears a nonce once. It gives no challenge of its own, for which a request would
// have to wait: a last word must reach who is too busy to answer before its speaker has gone.

inline constexpr std::size_t kNonceLength = 32;
inline constexpr std::size_t kHelloLength = 5 + kNonceLength;
inline constexpr std::size_t kAnswerLength = 4 + kTokenLength;

/// `to`: asked_address().
std::string request_proof(std::string_view token, std::string_view nonce, std::string_view to, PeerKind kind,
                          std::string_view payload);
std::string reply_proof(std::string_view token, std::string_view nonce, std::string_view to, std::string_view payload);
std::string asked_address(std::string_view ip, std::uint16_t port);

std::string hello_bytes(std::string_view nonce);
std::string answer_bytes(std::string_view proof);

/// What a client sends in all.
std::string proven_request(std::string_view token, std::string_view to, std::string_view nonce, PeerKind kind,
                           std::string_view payload);

/// The nonce or proof of what came first; more follows behind it.
struct PeerGreeting {
  bool bad = false;  ///< whatever follows, this is nothing for us
  bool whole = false;
  std::string_view text;
};
PeerGreeting parse_hello(std::string_view received);
PeerGreeting parse_answer(std::string_view received);

/// In a time that does not tell where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace busbar
