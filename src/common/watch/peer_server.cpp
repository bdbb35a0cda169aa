#include "common/watch/peer_server.h"

#include "common/base/error.h"
#include "common/machine/hmac.h"
#include "common/processes/child.h"
#include "common/watch/peer_messages.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

namespace busbar {
namespace {

using std::chrono::milliseconds;

// A silent connection is kept at least this long when others wait for its place: a peer that has connected sends within
// that time. On a very busy host it does not, and then it asks again.
constexpr milliseconds kSuspicion{1000};
constexpr milliseconds kLookAgain{50};  // for a listener that cannot be served

bool again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 512;  // what waits while all connections are taken; the
                               // system may hold it lower

/// All signals except those that a thread's own fault raises. Blocked where a thread is born, so that a handler runs in
/// the main thread and interrupts what that does.
sigset_t all_but_faults() {
  sigset_t set;
  sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&set, fault);
  return set;
}

[[noreturn]] void fail(const std::string& what) {
  throw_not_possible(fmt::format("{}: {}", what, std::strerror(errno)));
}

/// Whether the MTU of the interface with that address is lower than at this call, when the job begins.
std::function<bool()> mtu_watch(const std::string& ip) {
  const std::string name = interface_of(ip);
  return [name, at_first = interface_mtu(name)] {
    const int mtu = interface_mtu(name);
    return mtu > 0 && mtu < at_first;
  };
}

int milliseconds_until(Clock::time_point when) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

}  // namespace

PeerConnections::Clock::time_point PeerConnections::add_events(std::vector<pollfd>& events) {
  const Clock::time_point now = now_();
  Clock::time_point until = now + kPatience;
  const bool open = accepting();
  if (!open) until = now + kLookAgain;
  // poll ignores negative descriptors: a waiting listener would only wake us.
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
    // Reads what has come first: if this process was stopped or had no core, the peer was not late.
    const bool over = events[i + 1].revents != 0 && !go_on(connection, handle);
    if (over || now >= connection.begun + kPatience) drop(connection);
  }
  std::erase_if(connections_, [](const Connection& connection) { return !connection.socket.open(); });
  if (events[0].revents != 0) accept_new(handle, between);
}

bool PeerConnections::accepting() const {
  const Clock::time_point now = now_();
  return now >= accept_again_ && (connections_.size() < kMost || std::ranges::any_of(connections_, [&](const auto& c) {
                                    return !c.trusted && now >= c.begun + kSuspicion;
                                  }));
}

/// The connection that has been silent for longest gives way.
bool PeerConnections::make_room() {
  if (connections_.size() < kMost) return true;
  const Clock::time_point now = now_();
  // Connections are in the order in which they came. Data that has arrived but was not read yet is not silence.
  const auto victim = std::ranges::find_if(connections_, [&](const Connection& c) {
    char next = 0;
    return !c.trusted && now >= c.begun + kSuspicion && recv(c.socket.fd(), &next, 1, MSG_PEEK) <= 0;
  });
  if (victim == connections_.end()) return false;
  drop(*victim);
  connections_.erase(victim);
  return true;
}

/// However fast one address connects, the places of others stay free: its oldest stranger gives way.
void PeerConnections::limit_strangers(const std::string& from) {
  const auto is_stranger = [&](const Connection& c) { return !c.trusted && c.from == from; };
  if (static_cast<std::size_t>(std::ranges::count_if(connections_, is_stranger)) <= kMostStrangers) return;
  const auto oldest = std::ranges::find_if(connections_, is_stranger);
  drop(*oldest);
  connections_.erase(oldest);
}

void PeerConnections::accept_new(const Handle& handle, const std::function<void()>& between) {
  for (std::size_t taken = 0; taken < kMost && make_room(); ++taken) {
    SocketAddress from;
    from.length = sizeof from.storage;
    Socket socket(accept4(listener_.fd(), from.get(), &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.open()) {
      const SocketAddress own = local_address(socket.fd());
      if (own.length == 0) continue;
      connections_.push_back({.socket = std::move(socket),
                              .begun = now_(),
                              .asked = asked_address(ip_text(own.get()), port_of(own)),
                              .from = ip_text(from.get()),
                              .in = {},
                              .out = {}});
      between();
      // A peer's request is there as soon as its connection.
      if (!go_on(connections_.back(), handle)) {
        drop(connections_.back());
        connections_.pop_back();
      } else {
        limit_strangers(connections_.back().from);
      }
    } else if (errno != ECONNABORTED && errno != EINTR) {
      // Nothing left to accept, or no descriptor for it: poll would report the latter again and again.
      if (!again(errno)) accept_again_ = now_() + kLookAgain;
      return;
    }
  }
}

/// False: it is over.
bool PeerConnections::go_on(Connection& connection, const Handle& handle) {
  if (connection.out.empty()) return receive(connection, handle);
  // Whatever comes after the request (a clean end, a reset, babble) is the last of it. But a client that has shut down
  // only its own direction still wants the rest of the reply.
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
  const PeerInput request = parse_request(connection.in);
  if (request.state != PeerInput::State::whole) return request.state == PeerInput::State::incomplete;
  const std::string proof = request_proof(token_, request.nonce, connection.asked, request.kind, request.payload);
  connection.trusted = equal_in_constant_time(request.proof, proof) && is_new(request.nonce);
  return connection.trusted && answer(connection, request, handle);
}

/// Whether it is new; remembers it. Only clients that know the token can have nonces remembered. At least the last
/// 65,536 are remembered: a message that changes anything ends the process that receives it, and no more follow.
bool PeerConnections::is_new(std::string_view nonce) {
  constexpr std::size_t kRemembered = 1 << 16;
  const std::size_t key = std::hash<std::string_view>()(nonce);
  if (heard_before_.contains(key) || !heard_.insert(key).second) return false;
  if (heard_.size() == kRemembered) heard_before_ = std::exchange(heard_, {});
  return true;
}

bool PeerConnections::answer(Connection& connection, const PeerInput& request, const Handle& handle) {
  const auto reply = [&](std::string_view payload) {
    return reply_bytes(reply_proof(token_, request.nonce, connection.asked, payload), payload);
  };
  try {
    if (request.kind == PeerKind::message) {
      connection.out = reply(handle(request.payload));
    } else if (request.payload.size() > kSmallEcho && segments_shrank_()) {
      return true;  // no answer until the client leaves
    } else {
      connection.out = reply(request.payload);
    }
  } catch (...) {
    return false;
  }
  connection.in = {};
  return !connection.out.empty();
}

/// Leaves nothing in the kernel, except the end of a reply that the client still reads.
void PeerConnections::drop(Connection& connection) {
  const bool answered = !connection.out.empty() && connection.sent == connection.out.size();
  if (!answered || !connection.half_closed) connection.socket.reset_when_closed();
  connection.socket.close();
}

void PeerServer::run() noexcept {
  while (!stopping_) {
    try {
      serve();
    } catch (...) {  // no memory: the client asks again, but the ticks must continue
      tick_when_due();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}

void PeerServer::serve() {
  tick_when_due();
  adopt_listener();
  std::vector<pollfd> events{{bell_.fd(), POLLIN, 0}};
  Clock::time_point until = next_tick_;
  if (connections_) until = std::min(until, connections_->add_events(events));
  poll(events.data(), events.size(), milliseconds_until(until));
  if ((events[0].revents & POLLIN) != 0) {
    std::uint64_t rings = 0;
    [[maybe_unused]] const ssize_t n = read(bell_.fd(), &rings, sizeof rings);
  }
  if (connections_) connections_->serve(std::span(events).subspan(1), hooks_.handle, [this] { tick_when_due(); });
}

void PeerServer::tick_when_due() noexcept {
  const Clock::time_point now = Clock::now();
  if (stopping_ || now < next_tick_) return;
  next_tick_ = now + hooks_.period;
  try {
    if (hooks_.tick) hooks_.tick();
  } catch (...) {  // no caller could do anything about it
  }
}

void PeerServer::ring() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(bell_.fd(), &one, sizeof one);
}

void PeerServer::adopt_listener() {
  const std::lock_guard lock(mutex_);
  if (!opened_) return;
  connections_.emplace(std::move(*opened_));
  opened_.reset();
}

PeerServer::PeerServer(Hooks hooks) : hooks_(std::move(hooks)), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_.open()) fail("no event descriptor for the watcher");
  try {
    const SignalMask blocked(SIG_SETMASK, all_but_faults());
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw_not_possible(fmt::format("no thread for the watcher: {}", error.what()));
  }
}

PeerServer::~PeerServer() {
  stopping_ = true;
  ring();
  thread_.join();
}

std::uint16_t PeerServer::listen(const std::string& ip, const std::string& token) {
  if (token.size() != kTokenLength) throw Error(ExitCode::internal, "a watcher's token of another length");
  std::optional<SocketAddress> address = socket_address(ip, 0);
  if (!address) throw Error(ExitCode::internal, fmt::format("the watcher cannot listen on '{}': no IP address", ip));
  Socket listener = make_tcp_socket(address->family());
  if (!listener.open()) fail("no socket for the watcher");
  // The kernel keeps a connection to itself until data have come: strangers that send nothing take no place.
  const int seconds = static_cast<int>(PeerConnections::kPatience.count());
  (void)setsockopt(listener.fd(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
  if (bind(listener.fd(), address->get(), address->length) != 0 || ::listen(listener.fd(), kBacklog) != 0 ||
      getsockname(listener.fd(), address->get(), &address->length) != 0) {
    fail(fmt::format("the watcher cannot listen on {}", ip));
  }
  const std::uint16_t port = port_of(*address);
  {
    const std::lock_guard lock(mutex_);
    opened_.emplace(std::move(listener), token, mtu_watch(ip));
  }
  ring();
  return port;
}

}  // namespace busbar
