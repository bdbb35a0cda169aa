#pragma once

#include "common/evidence/hang_evidence.h"
#include "common/watch/peer_address.h"

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

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
