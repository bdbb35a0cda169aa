#include "common/processes/sockets/links.h"

#include "common/base/say.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kFrameHeader = sizeof(FrameHead);
constexpr std::chrono::seconds kToConnect{20};

std::string_view bytes_of(const FrameHead& head) { return {reinterpret_cast<const char*>(&head), sizeof head}; }

/// A JobEnd as a frame: code, rank, and whether it is silent.
std::string end_bytes(const JobEnd& end) {
  const std::array<std::int32_t, 3> fields{static_cast<std::int32_t>(end.code), end.rank, end.silent ? 1 : 0};
  return std::string(bytes_of({.kind = FrameKind::end, .length = sizeof fields}))
      .append(reinterpret_cast<const char*>(fields.data()), sizeof fields);
}

JobEnd end_of(std::string_view payload) {
  std::array<std::int32_t, 3> fields{static_cast<std::int32_t>(ExitCode::internal), -1, 1};
  if (payload.size() == sizeof fields) std::memcpy(fields.data(), payload.data(), sizeof fields);
  return {static_cast<ExitCode>(fields[0] & 0xFF), fields[1], fields[2] != 0};
}

/// A host that loses its power or its network sends no end: about 20 s, whether something is under way or not.
void set_patience(int fd) {
  const int on = 1, idle = 5, interval = 4, count = 4, user_timeout_ms = 20000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
}

/// Waits until a connection is there; 0, or errno's number.
int connected_within(int fd, std::chrono::seconds patience) {
  pollfd event{fd, POLLOUT, 0};
  const int ready = poll(&event, 1, static_cast<int>(milliseconds(patience).count()));
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

}  // namespace

Links::Links(int rank, Reception reception, std::string token, std::map<int, Socket> met, OnEnd on_end)
    : rank_(rank),
      reception_(std::move(reception)),
      token_(std::move(token)),
      on_end_(std::move(on_end)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (auto& [other, socket] : met) adopt(aside_, other, std::move(socket));
  try {
    guard_ = std::thread([this] { guard(); });
  } catch (const std::system_error&) {
    // Then a neighbor's end is noticed when the main thread waits for it.
  }
}

Links::~Links() {
  stopping_ = true;
  ring();
  if (guard_.joinable()) guard_.join();
}

void Links::ring() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(bell_.fd(), &one, sizeof one);
}

void Links::add_members(const std::vector<JobMember>& members) {
  for (const JobMember& member : members) members_[member.rank] = member;
}

void Links::fail(int peer, const std::string& what) {
  // Others find the same at the same moment: the lowest rank says it.
  std::this_thread::sleep_for(milliseconds(50) * std::min(rank_, 20));
  leave_if_ended();
  const auto known = members_.find(peer);
  const std::string where = known == members_.end() ? "" : " on " + known->second.host;
  say("error: rank {} on {}: rank {}{} {}", rank_, members_.at(rank_).host, peer, where, what);
  end_job(ExitCode::not_possible);
}

void Links::adopt(std::map<int, Peer>& peers, int rank, Socket socket) {
  set_patience(socket.fd());
  {
    const std::lock_guard lock(mutex_);
    peers[rank].socket = std::move(socket);
  }
  ring();
}

void Links::require(std::span<const int> ranks) {
  const auto lacks = [&](int rank) { return rank != rank_ && !peers_.contains(rank); };
  {
    const std::lock_guard lock(mutex_);
    for (const int rank : ranks) peers_.insert(aside_.extract(rank));
  }
  // All connections first: none of them waits for the other process, so no two wait for each other.
  for (const int rank : ranks)
    if (lacks(rank) && rank > rank_) connect_to(rank);
  const auto until = Clock::now() + 3 * kToConnect;
  for (const int rank : ranks) {
    while (lacks(rank)) {
      if (Clock::now() > until) fail(rank, fmt::format("has not connected within {} s", (3 * kToConnect).count()));
      accept_some();
      wait_and_read(-1, 0);
      leave_if_ended();
    }
  }
}

void Links::connect_to(int rank) {
  const JobMember& to = members_.at(rank);
  const auto address = socket_address(to.ip, to.port);
  if (!address) fail(rank, "has no address that others could reach: name an interface with NCCL_SOCKET_IFNAME");
  Socket socket = make_tcp_socket(address->family());
  int error = 0;
  if (!socket.open() || (connect(socket.fd(), address->get(), address->length) != 0 && errno != EINPROGRESS)) {
    error = errno;
  } else {
    error = connected_within(socket.fd(), kToConnect);
  }
  const std::string hello =
      hello_bytes(HelloKind::link, pack_fields(LinkHello{rank_, link_proof(token_, rank_, rank)}));
  if (error == 0 && !send_within(socket, hello, kToConnect)) error = ECONNRESET;
  if (error != 0) {
    leave_if_ended();
    fail(rank, fmt::format("cannot be reached at {} port {}: {}: if a firewall is between them, name another interface "
                           "with NCCL_SOCKET_IFNAME",
                           to.ip, to.port, std::strerror(error)));
  }
  adopt(peers_, rank, std::move(socket));
}

void Links::accept_some() {
  for (Reception::Arrival& arrival : reception_.wait(milliseconds(5))) {
    const std::optional<LinkHello> hello = unpack_message<LinkHello>(arrival.payload);
    if (!hello || !members_.contains(hello->rank) || peers_.contains(hello->rank) || hello->rank >= rank_) continue;
    if (hello->proof != link_proof(token_, hello->rank, rank_)) continue;
    adopt(peers_, hello->rank, std::move(arrival.socket));
  }
}

/// Reads what is there. Under the lock.
void Links::pump(int rank, Peer& peer) {
  while (!peer.closed) {
    const ssize_t n = recv(peer.socket.fd(), chunk_.data(), chunk_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n > 0) {
      peer.in.append(chunk_.data(), static_cast<std::size_t>(n));
      take_frames(rank, peer);
      if (n < static_cast<ssize_t>(chunk_.size())) return;
      continue;
    }
    peer.closed = true;
    if (!peer.bye && !stopping_) note_end({ExitCode::timeout, rank, true});
  }
}

/// Moves whole frames into the queue. Under the lock.
void Links::take_frames(int rank, Peer& peer) {
  std::size_t at = 0;
  while (peer.in.size() - at >= kFrameHeader) {
    FrameHead head;
    std::memcpy(&head, peer.in.data() + at, sizeof head);
    if (head.kind > FrameKind::bye || head.length > kMostOfFrame) {
      peer.closed = true;
      return note_end({ExitCode::internal, rank, true});
    }
    if (peer.in.size() - at - kFrameHeader < head.length) break;
    peer.core = head.core;
    std::string payload = peer.in.substr(at + kFrameHeader, head.length);
    at += kFrameHeader + head.length;
    if (head.kind == FrameKind::bye) {
      peer.bye = true;
    } else if (head.kind == FrameKind::end) {
      note_end(end_of(payload));
    } else {
      peer.queued += payload.size();
      peer.queue.push_back({head, std::move(payload)});
    }
  }
  peer.in.erase(0, at);
}

/// The first frame of the group, if it is there. Under the lock.
std::optional<std::string> Links::take(int from, Peer& peer, std::uint32_t group, FrameKind kind) {
  const auto found = std::ranges::find_if(peer.queue, [&](const Frame& f) { return f.head.group == group; });
  if (found == peer.queue.end()) return std::nullopt;
  if (found->head.kind != kind) {
    say("error: rank {}: rank {} is in another operation than this one ({} and {})", rank_, from,
        static_cast<int>(found->head.kind), static_cast<int>(kind));
    note_end({ExitCode::internal, rank_, false});
    return std::string();
  }
  std::string payload = std::move(found->payload);
  peer.queued -= payload.size();
  peer.queue.erase(found);
  return payload;
}

/// Blocks until something can be read, or sent to that process (-1: none), and reads it. Without the lock.
void Links::wait_and_read(int to_send_to, int timeout_ms) {
  std::vector<pollfd> events;
  std::vector<int> ranks;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [rank, peer] : peers_) {
      if (peer.closed) continue;
      events.push_back({peer.socket.fd(), static_cast<short>(rank == to_send_to ? POLLIN | POLLOUT : POLLIN), 0});
      ranks.push_back(rank);
    }
  }
  if (poll(events.data(), events.size(), timeout_ms) <= 0) return;
  std::optional<int> full;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if ((events[i].revents & ~POLLOUT) == 0) continue;
      Peer& peer = peers_.at(ranks[i]);
      pump(ranks[i], peer);
      if (peer.queued > kMostQueued) full = ranks[i];
    }
  }
  if (full) fail(*full, fmt::format("sends what this one never asks for: more than {} bytes wait", kMostQueued));
}

void Links::send(int to, FrameHead head, std::string_view payload) {
  head.core = static_cast<std::int16_t>(sched_getcpu());
  const std::string_view header = bytes_of(head);
  std::size_t sent = 0;
  const std::size_t all = header.size() + payload.size();
  while (sent < all) {
    leave_if_ended();
    {
      const std::lock_guard lock(mutex_);
      Peer& peer = peers_.at(to);
      const std::string_view first = header.substr(std::min(sent, header.size()));
      const std::string_view rest = payload.substr(sent > header.size() ? sent - header.size() : 0);
      std::array<iovec, 2> parts{
          {{const_cast<char*>(first.data()), first.size()}, {const_cast<char*>(rest.data()), rest.size()}}};
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = parts.size();
      const ssize_t n = ended_ ? -1 : sendmsg(peer.socket.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && !ended_ && errno != EAGAIN && errno != EINTR) {
        pump(to, peer);  // it may have said why
        if (peer.bye) return;
        note_end({ExitCode::timeout, to, true});
      }
      sent += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
      peer.in_frame = sent > 0 && sent < all;
    }
    if (sent == all) break;
    // The other side may wait in the same way: what it sends must go somewhere.
    wait_and_read(to, 1000);
  }
}

std::string Links::receive(int from, std::uint32_t group, FrameKind kind) {
  constexpr std::chrono::microseconds kSpin{100};
  const auto spins_until = Clock::now() + (spins_ ? kSpin : kSpin.zero());
  const bool is_here = members_.at(from).machine == members_.at(rank_).machine;
  bool shares = false;
  for (bool first = true;; first = false) {
    {
      const std::lock_guard lock(mutex_);
      Peer& peer = peers_.at(from);
      if (first || spins_) pump(from, peer);
      shares = is_here && peer.core == sched_getcpu();
      if (std::optional<std::string> payload = take(from, peer, group, kind)) return *std::move(payload);
      // Said good-bye, or closed: nothing will come.
      if (peer.closed && !ended_) note_end({ExitCode::timeout, from, true});
    }
    leave_if_ended();
    // If the other one was last on this very core, it cannot send while this one spins.
    if (spins_ && !shares && Clock::now() < spins_until) continue;
    wait_and_read(-1, 1000);
  }
}

/// Remembers it, once. Under the lock; the caller calls leave_if_ended() without it afterwards.
void Links::note_end(const JobEnd& end) {
  if (ended_) return;
  end_ = end;
  ended_ = true;
  // Half closed, so that the others' guards wake whatever they are in. A frame that is under way cannot be interrupted:
  // then they see the end alone.
  const std::string bytes = end_bytes(end);
  for (auto* peers : {&peers_, &aside_}) {
    for (auto& [rank, peer] : *peers) {
      if (peer.closed) continue;
      if (!peer.in_frame) ::send(peer.socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      shutdown(peer.socket.fd(), SHUT_WR);
    }
  }
}

/// Reports the end, once; not under the lock.
void Links::announce() {
  if (!ended_ || announced_.exchange(true)) return;
  if (on_end_) on_end_(*end_);
}

/// Does not return if the job ends: what was called about it ends this process.
void Links::leave_if_ended() {
  if (!ended_) return;
  announce();
  // A watcher takes seconds to find out what happened to a process that has said nothing.
  std::this_thread::sleep_for(std::chrono::seconds(on_end_ ? (end_->silent ? 30 : 5) : 0));
  if (end_->silent) say("error: rank {}: rank {} has gone without a word, and no watcher knows why", rank_, end_->rank);
  _exit(static_cast<int>(end_->code));
}

void Links::guard() {
  while (!stopping_) {
    std::vector<pollfd> events{{bell_.fd(), POLLIN, 0}};
    std::vector<int> ranks;
    {
      const std::lock_guard lock(mutex_);
      for (auto* peers : {&peers_, &aside_}) {
        for (const auto& [rank, peer] : *peers) {
          if (peer.closed) continue;
          events.push_back({peer.socket.fd(), POLLRDHUP, 0});
          ranks.push_back(rank);
        }
      }
    }
    if (poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return;
    if (events.front().revents != 0) {
      std::uint64_t rung = 0;
      [[maybe_unused]] const ssize_t n = read(bell_.fd(), &rung, sizeof rung);
    }
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (events[i + 1].revents == 0) continue;
        const auto aside = aside_.find(ranks[i]);
        pump(ranks[i], aside != aside_.end() ? aside->second : peers_.at(ranks[i]));
      }
    }
    announce();
  }
}

void Links::finish() {
  constexpr std::chrono::seconds kPatience{5};
  const FrameHead bye{.kind = FrameKind::bye};
  {
    const std::lock_guard lock(mutex_);
    peers_.merge(aside_);
  }
  for (auto& [rank, peer] : peers_) send(rank, bye, {});
  const auto until = Clock::now() + kPatience;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (std::ranges::all_of(peers_, [](const auto& p) { return p.second.bye || p.second.closed; })) break;
    }
    if (Clock::now() > until) break;
    wait_and_read(-1, 100);
    leave_if_ended();
  }
  stopping_ = true;
}

void Links::end_job(ExitCode code) {
  {
    const std::lock_guard lock(mutex_);
    announced_ = true;  // this process has said why
    note_end({code, rank_, false});
  }
  _exit(static_cast<int>(code));
}

}  // namespace busbar
