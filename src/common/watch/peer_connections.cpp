#include "common/watch/peer_connections.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace busbar {
namespace {

using std::chrono::milliseconds;

// A connection that says nothing is kept at least so long when others wait for its place: a peer that has connected
// sends within that, unless its host is very busy, and then it asks again.
constexpr milliseconds kSuspicion{1000};
constexpr milliseconds kLookAgain{50};  // at a listener that cannot be served

bool again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

PeerConnections::Clock::time_point PeerConnections::add_events(std::vector<pollfd>& events) {
  const Clock::time_point now = now_();
  Clock::time_point until = now + kPatience;
  const bool open = accepting();
  if (!open) until = now + kLookAgain;
  // poll ignores negative descriptors: a listener that waits would only wake us.
  events.push_back({open ? listener_.fd() : -1, POLLIN, 0});
  for (const Connection& connection : connections_) {
    const bool sending = connection.sent < connection.out.size();
    events.push_back({connection.socket.fd(),
                      static_cast<short>((connection.half_closed ? 0 : POLLIN) | (sending ? POLLOUT : 0)), 0});
    until = std::min(until, connection.begun + kPatience);
  }
  polled_ = connections_.size();
  return until;
}

void PeerConnections::serve(std::span<const pollfd> events, const Handle& handle,
                            const std::function<void()>& between) {
  const Clock::time_point now = now_();
  for (std::size_t i = 0; i < polled_; ++i) {
    between();
    Connection& connection = connections_[i];
    // What has come is read first: where this process was stopped or had no core, it was not the peer that was late.
    const bool over = events[i + 1].revents != 0 && !go_on(connection, handle);
    if (over || now >= connection.begun + kPatience) drop(connection);
  }
  std::erase_if(connections_, [](const Connection& connection) { return !connection.socket.open(); });
  if (events[0].revents != 0) accept_new();
}

bool PeerConnections::accepting() const {
  const Clock::time_point now = now_();
  return now >= accept_again_ && (connections_.size() < kMost || std::ranges::any_of(connections_, [&](const auto& c) {
                                    return !c.trusted && now >= c.begun + kSuspicion;
                                  }));
}

/// Whoever has said nothing for longest gives way.
bool PeerConnections::make_room() {
  if (connections_.size() < kMost) return true;
  const Clock::time_point now = now_();
  // Connections stand in the order in which they came. What has arrived and was not read yet is no silence.
  const auto victim = std::ranges::find_if(connections_, [&](const Connection& c) {
    char next = 0;
    return !c.trusted && now >= c.begun + kSuspicion && recv(c.socket.fd(), &next, 1, MSG_PEEK) <= 0;
  });
  if (victim == connections_.end()) return false;
  drop(*victim);
  connections_.erase(victim);
  return true;
}

void PeerConnections::accept_new() {
  for (std::size_t taken = 0; taken < kMost && make_room(); ++taken) {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.open()) {
      connections_.push_back({.socket = std::move(socket), .begun = now_(), .in = {}, .out = {}});
    } else if (errno != ECONNABORTED && errno != EINTR) {
      // Nobody left to accept, or no descriptor to do it with: poll would report the latter again and again.
      if (!again(errno)) accept_again_ = now_() + kLookAgain;
      return;
    }
  }
}

/// False: it is over.
bool PeerConnections::go_on(Connection& connection, const Handle& handle) {
  if (connection.out.empty()) return receive(connection, handle);
  // Whatever comes after the request (an end in good order, a reset, babble) is the last of it; but a client that has
  // shut down its own direction only still wants the rest of the reply.
  char more = 0;
  const ssize_t got = recv(connection.socket.fd(), &more, 1, 0);
  if (got > 0 || (got < 0 && !again(errno))) return false;
  connection.half_closed = connection.half_closed || got == 0;
  if (connection.sent < connection.out.size()) {
    const ssize_t sent = send(connection.socket.fd(), connection.out.data() + connection.sent,
                              connection.out.size() - connection.sent, MSG_NOSIGNAL);
    count_watcher_bytes(sent);
    if (sent < 0) return again(errno);
    connection.sent += static_cast<std::size_t>(sent);
  }
  return !connection.half_closed || connection.sent < connection.out.size();
}

bool PeerConnections::receive(Connection& connection, const Handle& handle) {
  std::array<char, 16 * 1024> chunk;  // not cleared: recv says how much of it counts
  const ssize_t got = recv(connection.socket.fd(), chunk.data(), chunk.size(), 0);
  count_watcher_bytes(got);
  if (got < 0) return again(errno);
  if (got == 0) return false;
  connection.in.append(chunk.data(), static_cast<std::size_t>(got));
  const PeerInput request = parse_request(connection.in, token_);
  connection.trusted = request.trusted;
  if (request.state != PeerInput::State::whole) return request.state == PeerInput::State::incomplete;
  return answer(connection, request, handle);
}

bool PeerConnections::answer(Connection& connection, const PeerInput& request, const Handle& handle) {
  try {
    if (request.kind == PeerKind::message) {
      connection.out = reply_bytes(handle(request.payload));
    } else if (request.payload.size() > kSmallEcho && segments_shrank_()) {
      return true;  // no answer until the client leaves
    } else {
      connection.out = reply_bytes(request.payload);
    }
  } catch (...) {
    return false;
  }
  connection.in = {};
  return !connection.out.empty();
}

/// Leaves nothing behind in the kernel, but for the end of a reply that a client in good order still reads.
void PeerConnections::drop(Connection& connection) {
  const bool answered = !connection.out.empty() && connection.sent == connection.out.size();
  if (!answered || !connection.half_closed) connection.socket.reset_when_closed();
  connection.socket.close();
}

}  // namespace busbar
