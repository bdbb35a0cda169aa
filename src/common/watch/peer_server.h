#pragma once

#include "common/watch/peer_address.h"

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

namespace busbar {

struct PeerInput;  ///< peer_messages.h

/// The listening socket of a PeerServer and its connections. Used by its thread alone; never blocks.
class PeerConnections {
 public:
  using Clock = std::chrono::steady_clock;
  using Handle = std::function<std::string(std::string_view request)>;

  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostStrangers = 16;    ///< of one address: connections that have proved nothing
  static constexpr std::chrono::seconds kPatience{5};  ///< for a whole connection

  /// `segments_shrank`: whether packets as large as when the job began no longer reach this host. If so, large echoes
  /// stay unanswered: a new connection agrees on smaller segments and would hide what the job's older ones suffer from.
  /// `now` is the clock.
  PeerConnections(Socket listener, std::string token, std::function<bool()> segments_shrank,
                  std::function<Clock::time_point()> now = Clock::now)
      : listener_(std::move(listener)),
        token_(std::move(token)),
        segments_shrank_(std::move(segments_shrank)),
        now_(std::move(now)) {}

  /// Adds what to poll for; returns when to come back at the latest.
  Clock::time_point add_events(std::vector<pollfd>& events);

  /// Serves what poll found in the events added. `between` is called before each connection is served.
  void serve(std::span<const pollfd> events, const Handle& handle, const std::function<void()>& between);

 private:
  struct Connection {
    Socket socket;
    Clock::time_point begun;
    std::string asked;  ///< the address of this host that the client used
    std::string from;   ///< the client's, without the port
    std::string in;     ///< a request that grows
    std::string out;    ///< the reply; empty while the request is not whole
    std::size_t sent = 0;
    bool trusted = false;      ///< has sent a whole request with its proof
    bool half_closed = false;  ///< the client sends no more
  };

  bool accepting() const;
  bool make_room();
  void accept_new(const Handle& handle, const std::function<void()>& between);
  void limit_strangers(const std::string& from);
  bool go_on(Connection& connection, const Handle& handle);
  bool receive(Connection& connection, const Handle& handle);
  bool is_new(std::string_view nonce);
  bool answer(Connection& connection, const PeerInput& request, const Handle& handle);
  void drop(Connection& connection);

  Socket listener_;
  std::string token_;
  std::function<bool()> segments_shrank_;
  std::function<Clock::time_point()> now_;
  std::vector<Connection> connections_;
  std::unordered_set<std::size_t> heard_, heard_before_;  ///< nonces
  std::size_t polled_ = 0;                                ///< number of connections_, in the order of the events
  Clock::time_point accept_again_{};                      ///< not before: no descriptors were left
};

/// Listens on `ip` from listen() to destruction, in a separate thread that also ticks. Requests without the token's
/// proof, too long ones and slow ones (5 s) are dropped silently. Never throws once it runs.
class PeerServer {
 public:
  /// `handle` and `tick` run in the server's thread, one at a time; a long answer needs its own thread. The request of
  /// a handler that throws is dropped; so is a reply above kMaxReply.
  struct Hooks {
    std::function<std::string(std::string_view request)> handle;
    std::function<void()> tick;
    std::chrono::milliseconds period{500};
  };

  /// Ticks from now on (the first time at once); listens after listen(). Throws Error if the system has no thread or
  /// descriptor left. Other threads handle signals.
  explicit PeerServer(Hooks hooks);
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;
  /// Waits for a running hook. Not from within one.
  ~PeerServer();

  /// Opens the socket on a port that the system chooses, and returns it; closes the one before, if any. Throws Error.
  std::uint16_t listen(const std::string& ip, const std::string& token);

 private:
  void run() noexcept;
  void serve();
  void tick_when_due() noexcept;
  void ring() noexcept;
  /// Takes over the socket that listen() opened.
  void adopt_listener();

  Hooks hooks_;
  Socket bell_;  ///< an eventfd: listen() and the destructor ring it
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::optional<PeerConnections> opened_;       ///< by listen(), until the thread takes it
  std::optional<PeerConnections> connections_;  ///< of the thread
  PeerConnections::Clock::time_point next_tick_ = PeerConnections::Clock::now();
  std::thread thread_;
};

}  // namespace busbar
