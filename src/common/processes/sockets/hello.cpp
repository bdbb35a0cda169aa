#include "common/processes/sockets/hello.h"

#include "common/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

namespace busbar {
namespace {

constexpr std::string_view kMeetMagic = "BBMEET01";
static_assert(kHelloHeader == kMeetMagic.size() + 1 + 4);

using Clock = std::chrono::steady_clock;

Socket listen_at(const SocketAddress& address) {
  Socket listener = make_tcp_socket(address.family());
  if (!listener.open()) return listener;
  const int on = 1, off = 0;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6) setsockopt(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  // The kernel cuts the backlog to what it allows (net.core.somaxconn).
  if (bind(listener.fd(), address.get(), address.length) != 0 || listen(listener.fd(), 65535) != 0) {
    const int why = errno;
    listener.close();
    errno = why;
  }
  return listener;
}

}  // namespace

HelloInput parse_hello(std::string_view received, HelloKind kind) {
  constexpr HelloInput kBad{HelloInput::State::bad};
  const std::string_view magic = received.substr(0, kMeetMagic.size());
  if (magic != kMeetMagic.substr(0, magic.size())) return kBad;
  if (received.size() > kMeetMagic.size() && received[kMeetMagic.size()] != static_cast<char>(kind)) return kBad;
  if (received.size() < kHelloHeader) return {};
  std::size_t length = 0;
  for (const char c : received.substr(kHelloHeader - 4, 4)) length = length << 8 | static_cast<unsigned char>(c);
  if (length > kMaxHello) return kBad;
  HelloInput input;
  input.expected = kHelloHeader + length;
  if (received.size() > input.expected) return kBad;
  if (received.size() < input.expected) return input;
  input.state = HelloInput::State::whole;
  input.payload = received.substr(kHelloHeader);
  return input;
}

std::string hello_bytes(HelloKind kind, std::string_view payload) {
  if (payload.size() > kMaxHello)
    throw Error(ExitCode::internal, fmt::format("a message of {} bytes between processes that meet", payload.size()));
  std::string bytes(kMeetMagic);
  bytes += static_cast<char>(kind);
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(payload.size() >> shift & 0xFF);
  return bytes.append(payload);
}

std::string meet_proof(std::string_view key, std::string_view text) {
  const std::array<unsigned char, 32> digest = hmac_sha256(key, text);
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(16), ""));
}

std::string link_proof(std::string_view token, int from, int to) {
  return meet_proof(token, fmt::format("{} links with {}", from, to));
}

Socket listen_everywhere(std::uint16_t port) {
  Socket listener = listen_at(*socket_address("::", port));
  // A kernel without IPv6, or one that has it switched off.
  if (!listener.open() && errno != EADDRINUSE) listener = listen_at(*socket_address("0.0.0.0", port));
  return listener;
}

bool send_within(const Socket& socket, std::string_view bytes, std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    pollfd event{socket.fd(), POLLOUT, 0};
    if (left.count() <= 0 || poll(&event, 1, static_cast<int>(left.count())) < 0) return false;
  }
  return true;
}

HelloInput read_hello(const Socket& socket, std::string& in, HelloKind kind) {
  std::array<char, 4096> chunk;
  for (;;) {
    const HelloInput so_far = parse_hello(in, kind);
    if (so_far.state != HelloInput::State::incomplete) return so_far;
    const ssize_t n =
        recv(socket.fd(), chunk.data(), std::min(chunk.size(), so_far.expected - in.size()), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return so_far;
    if (n <= 0) return {HelloInput::State::bad};
    in.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

std::vector<Reception::Arrival> Reception::wait(std::chrono::milliseconds patience) {
  std::vector<pollfd> events{{listener_.fd(), POLLIN, 0}};
  for (const Waiting& one : waiting_) events.push_back({one.socket.fd(), POLLIN, 0});
  std::vector<Arrival> arrived;
  if (poll(events.data(), events.size(), static_cast<int>(patience.count())) < 0) return arrived;
  if ((events.front().revents & POLLIN) != 0) accept_all();
  const auto now = Clock::now();
  std::erase_if(waiting_, [&](Waiting& one) { return !read(one, arrived) || now >= one.until; });
  return arrived;
}

void Reception::accept_all() {
  for (;;) {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.open()) {
      if (errno == EMFILE || errno == ENFILE) {
        throw_not_possible(fmt::format("no descriptor is left for another process ({}): raise the limit (ulimit -n)",
                                       std::strerror(errno)));
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    const int on = 1;
    setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!send_within(socket, greeting_, std::chrono::milliseconds(0))) continue;
    if (waiting_.size() >= kMost) waiting_.erase(waiting_.begin());
    waiting_.push_back({std::move(socket), Clock::now() + kPatience});
  }
}

/// Whether it may still say something.
bool Reception::read(Waiting& one, std::vector<Arrival>& arrived) const {
  const HelloInput input = read_hello(one.socket, one.in, kind_);
  if (input.state == HelloInput::State::whole) arrived.push_back({std::move(one.socket), std::string(input.payload)});
  return input.state == HelloInput::State::incomplete;
}

}  // namespace busbar
