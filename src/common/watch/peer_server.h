#pragma once

#include "common/watch/peer_wire.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace busbar {

/// Listens on `ip` from listen() to destruction, in one thread of its own that also ticks. Requests with a wrong token,
/// too long ones and slow ones (5 s) are dropped without a word. Never throws once it runs.
class PeerServer {
 public:
  /// `handle` and `tick` run in the server's thread, one at a time; a long answer belongs into a thread of the
  /// handler's own. What they throw is swallowed: such a request is dropped. A reply above kMaxReply is dropped too.
  struct Hooks {
    std::function<std::string(std::string_view request)> handle;
    std::function<void()> tick;
    std::chrono::milliseconds period{500};
  };

  /// Ticks from now on (the first time at once); listens after listen(). Throws Error where the system has no thread or
  /// descriptor left. Signals are handled by other threads.
  explicit PeerServer(Hooks hooks);
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;
  /// Waits for a hook that runs. Not from within one.
  ~PeerServer();

  /// Opens the socket on a port of the system's choice, which it returns. Once. Throws Error.
  std::uint16_t listen(const std::string& ip, const std::string& token);

  /// Ticks at once. Safe in a signal handler.
  void wake() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace busbar
