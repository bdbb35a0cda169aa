#include "common/base/lists.h"
#include "common/base/random_source.h"
#include "common/machine/hmac.h"
#include "common/watch/peer_messages.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Result = PeerProbe::Result;

constexpr std::size_t kMostConnections = 256;
constexpr int kMostAttempts = 3;

Result result_of(int error) {
  // The last two: a firewall of this host.
  constexpr std::array kNoRoute{EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN, EADDRNOTAVAIL, EACCES, EPERM};
  if (error == ETIMEDOUT) return Result::timed_out;
  return contains(kNoRoute, error) ? Result::no_route : Result::refused;
}

PeerReply failure(int error) { return {result_of(error), std::strerror(error)}; }

/// What is asked of all peers.
struct Question {
  PeerKind kind;
  std::string token;
  std::string payload;
};

/// A conversation under way.
struct Exchange {
  std::size_t peer = 0;  ///< its index
  Socket socket;
  Clock::time_point begun;
  std::string out;
  std::string nonce, asked;  ///< what the reply must be proven for
  std::size_t sent = 0;
  std::string in;
  bool cut = false;  ///< the other side ended it after it was connected
};

class Asking {
 public:
  Asking(std::span<const PeerAddress> peers, Question question, Clock::time_point deadline)
      : peers_(peers),
        question_(std::move(question)),
        deadline_(deadline),
        replies_(peers.size()),
        attempts_(peers.size(), 0) {}

  std::vector<PeerReply> run() {
    while (Clock::now() < deadline_) {
      start_some();
      if (under_way_.empty() && next_ == peers_.size()) break;
      wait_and_serve();
    }
    take_what_came();
    for (const Exchange& exchange : under_way_) give_up(exchange);
    for (; next_ < peers_.size(); ++next_) replies_[next_].text = "there was no time to ask";
    return std::move(replies_);
  }

 private:
  /// How long exchanges under way may keep others waiting: all must get their turn even if no peer answers.
  milliseconds patience() const {
    const std::size_t waiting = peers_.size() - next_;
    const auto rounds = static_cast<std::int64_t>(waiting / room_ + 2);
    return std::chrono::duration_cast<milliseconds>(deadline_ - Clock::now()) / rounds;
  }

  void make_room() {
    const Clock::time_point latest = Clock::now() - patience();
    std::erase_if(under_way_, [&](const Exchange& exchange) {
      if (exchange.begun > latest) return false;
      give_up(exchange);
      return true;
    });
  }

  void start_some() {
    if (next_ < peers_.size() && under_way_.size() >= room_) make_room();
    while (next_ < peers_.size() && under_way_.size() < room_ && start(next_)) ++next_;
  }

  /// False: the system has no descriptor left for now.
  bool start(std::size_t peer) {
    const PeerAddress& to = peers_[peer];
    const std::optional<SocketAddress> address = socket_address(to.ip, to.port);
    if (!address) {
      replies_[peer] = {Result::no_route, "'" + to.ip + "' is not an IP address"};
      return true;
    }
    Socket socket = make_tcp_socket(address->family());
    if (!socket.open()) {
      if (!under_way_.empty()) {
        room_ = under_way_.size();
        return false;
      }
      replies_[peer] = {Result::timed_out, std::string("no socket: ") + std::strerror(errno)};
      return true;
    }
    // Nothing is lost: the socket is closed when the reply is there or no longer wanted.
    socket.reset_when_closed();
    if (connect(socket.fd(), address->get(), address->length) != 0 && errno != EINPROGRESS) {
      replies_[peer] = failure(errno);
      return true;
    }
    const std::string nonce = random_id(), asked = asked_address(to.ip, to.port);
    under_way_.push_back({.peer = peer,
                          .socket = std::move(socket),
                          .begun = Clock::now(),
                          .out = proven_request(question_.token, asked, nonce, question_.kind, question_.payload),
                          .nonce = nonce,
                          .asked = asked,
                          .in = {}});
    return true;
  }

  /// Whether anything happened on any connection.
  bool wait_and_serve() {
    std::vector<pollfd> events;
    events.reserve(under_way_.size());
    for (const Exchange& exchange : under_way_) {
      const bool sending = exchange.sent < exchange.out.size();
      events.push_back({exchange.socket.fd(), static_cast<short>(sending ? POLLIN | POLLOUT : POLLIN), 0});
    }
    Clock::time_point until = deadline_;
    if (next_ < peers_.size() && !under_way_.empty()) until = std::min(until, under_way_.front().begun + patience());
    const auto wait = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    if (poll(events.data(), events.size(), static_cast<int>(std::max<std::int64_t>(wait, 1))) <= 0) return false;
    std::vector<std::size_t> again;
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
      Exchange& exchange = under_way_[i];
      if (events[i].revents == 0 || go_on(exchange)) continue;
      exchange.socket.close();
      // The watcher was too busy to keep the connection, or the process has just ended: then the next connection is
      // refused.
      if (exchange.cut && ++attempts_[exchange.peer] < kMostAttempts) again.push_back(exchange.peer);
    }
    std::erase_if(under_way_, [](const Exchange& exchange) { return !exchange.socket.open(); });
    for (const std::size_t peer : again)
      if (!start(peer)) replies_[peer] = {Result::timed_out, "no socket left to ask again"};
    return true;
  }

  /// On a busy host this process may not have run since the answers came: they wait in the kernel.
  void take_what_came() {
    constexpr milliseconds kMost{100};
    const Clock::time_point end = Clock::now() + kMost;
    while (!under_way_.empty() && Clock::now() < end && wait_and_serve()) {
    }
  }

  /// False: it is over, and the reply says how.
  bool go_on(Exchange& exchange) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(exchange.socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return fail(exchange, error);
    if (exchange.sent < exchange.out.size()) {
      const ssize_t n = send(exchange.socket.fd(), exchange.out.data() + exchange.sent,
                             exchange.out.size() - exchange.sent, MSG_NOSIGNAL);
      count_watcher_bytes(n);
      if (n > 0) exchange.sent += static_cast<std::size_t>(n);
      if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN) return fail(exchange, errno);
    }
    return receive(exchange);
  }

  bool receive(Exchange& exchange) {
    PeerReply& reply = replies_[exchange.peer];
    std::array<char, 64 * 1024> chunk;  // not cleared: recv says how much of it counts
    const ssize_t n = recv(exchange.socket.fd(), chunk.data(), chunk.size(), 0);
    count_watcher_bytes(n);
    if (n < 0) return errno == EAGAIN || errno == EINTR || errno == ENOTCONN || fail(exchange, errno);
    exchange.in.append(chunk.data(), static_cast<std::size_t>(n));
    PeerInput input = parse_reply(exchange.in);
    if (input.state == PeerInput::State::whole &&
        !equal_in_constant_time(input.proof,
                                reply_proof(question_.token, exchange.nonce, exchange.asked, input.payload))) {
      input.state = PeerInput::State::bad;
    }
    if (input.state == PeerInput::State::whole) {
      reply = {Result::ok, std::string(input.payload)};
    } else if (n == 0) {
      reply = {Result::refused, "it closed the connection without an answer"};
      exchange.cut = true;
    } else if (input.state == PeerInput::State::bad) {
      reply = {Result::refused, "the process that answers is no watcher of this job"};
    } else {
      return true;
    }
    return false;
  }

  /// Always false: it is over.
  bool fail(Exchange& exchange, int error) {
    replies_[exchange.peer] = failure(error);
    exchange.cut = error == ECONNRESET || error == EPIPE;
    return false;
  }

  void give_up(const Exchange& exchange) {
    const bool talked = exchange.sent > 0;
    replies_[exchange.peer] = {Result::timed_out, talked ? "connected, but no answer" : "no connection", talked};
  }

  std::span<const PeerAddress> peers_;
  Question question_;
  Clock::time_point deadline_;
  std::vector<PeerReply> replies_;
  std::vector<int> attempts_;
  std::vector<Exchange> under_way_;
  std::size_t next_ = 0;  ///< the first that is not asked yet
  std::size_t room_ = kMostConnections;
};

std::vector<PeerReply> ask(std::span<const PeerAddress> peers, Question question, milliseconds limit) {
  (void)request_bytes(question.kind, question.token, question.token,
                      question.payload);  // throws before any peer is asked
  return Asking(peers, std::move(question), Clock::now() + limit).run();
}

}  // namespace

std::vector<PeerReply> ask_peers(std::span<const PeerAddress> peers, const std::string& token, std::string_view request,
                                 milliseconds limit) {
  if (peers.empty()) return {};  // before the first peers are known there is no token either
  return ask(peers, {PeerKind::message, token, std::string(request)}, limit);
}

std::vector<PeerProbe> probe_peers(std::span<const PeerAddress> peers, const std::string& token, milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  std::vector<PeerProbe> probes;
  for (const PeerAddress& peer : peers) probes.push_back({peer.host, Result::timed_out, false});
  std::vector<std::size_t> asked(peers.size());  // the peers of the next round
  std::iota(asked.begin(), asked.end(), std::size_t{0});
  const auto echo = [&](std::size_t nbytes, Clock::time_point until) {
    std::vector<PeerAddress> to;
    for (const std::size_t i : asked) to.push_back(peers[i]);
    const std::string payload(nbytes, 'e');
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
    const std::vector<PeerReply> replies = ask(to, {PeerKind::echo, token, payload}, left);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const bool other = replies[i].result == Result::ok && replies[i].text != payload;
      probes[asked[i]].result = other ? Result::refused : replies[i].result;
    }
  };
  const auto keep = [&](Result wanted) { std::erase_if(asked, [&](auto i) { return probes[i].result != wanted; }); };

  echo(kSmallEcho, Clock::now() + limit * 2 / 5);
  keep(Result::ok);
  echo(kLargeEcho, Clock::now() + (deadline - Clock::now()) * 2 / 3);
  // The size was the cause only if small messages still pass; else the way broke meanwhile.
  keep(Result::timed_out);
  echo(kSmallEcho, deadline);
  keep(Result::ok);
  for (const std::size_t i : asked) probes[i].result = Result::large_lost;
  return probes;
}

}  // namespace busbar
