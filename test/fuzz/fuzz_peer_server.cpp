// The bugs this would catch: a client that blocks a watcher, ends it, makes it grow, or has something handled without
// the token or a second time, whatever it sends in whatever pieces and however it leaves.
//
// fuzz_peer_server [seed [rounds]]: deterministic by seed in what is sent, not in how the threads meet.

#include "common/base/random_source.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_messages.h"
#include "common/watch/peer_server.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>

using namespace busbar;

namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

std::string noise(Random& random, std::size_t most) {
  std::string text(below(random, most + 1), '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

/// A request with the token's proof in one of three, damaged in half of the cases, or noise.
std::string some_bytes(Random& random, const std::string& token, const PeerAddress& to) {
  if (below(random, 4) == 0) return noise(random, 3000);
  const std::string wrong(kTokenLength, 'f');
  const PeerKind kind = below(random, 2) == 0 ? PeerKind::echo : PeerKind::message;
  const std::string nonce = fmt::format("{:016x}{:016x}", random(), random());
  std::string bytes = proven_request(below(random, 3) == 0 ? token : wrong, asked_address(to.ip, to.port), nonce, kind,
                                     noise(random, below(random, 10) == 0 ? kMaxRequest : 200));
  if (below(random, 2) == 0) bytes[below(random, bytes.size())] = static_cast<char>(random());
  if (below(random, 4) == 0) bytes.resize(below(random, bytes.size()));
  if (below(random, 4) == 0) bytes += noise(random, 100);
  return bytes;
}

/// Whether the handler may see something of them.
bool may_be_handled(std::string_view bytes, const std::string& token, const PeerAddress& to) {
  // What follows it may come too late to make it bad.
  const PeerInput input = parse_request(bytes.substr(0, parse_request(bytes.substr(0, kRequestHeader)).expected));
  return input.state == PeerInput::State::whole && input.kind == PeerKind::message &&
         input.proof ==
             request_proof(token, input.nonce, asked_address(to.ip, to.port), PeerKind::message, input.payload);
}

/// Sends in pieces without waiting for anything, and leaves in one of the ways that there are, or stays.
Socket misbehave(Random& random, const PeerAddress& server, std::string_view bytes) {
  Socket socket = make_tcp_socket(AF_INET);
  const SocketAddress address = *socket_address(server.ip, server.port);
  if (!socket.open()) return socket;
  (void)connect(socket.fd(), address.get(), address.length);
  pollfd writable{socket.fd(), POLLOUT, 0};
  poll(&writable, 1, 1000);
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t piece = std::min(rest.size(), below(random, 5000) + 1);
    if (send(socket.fd(), rest.data(), piece, MSG_NOSIGNAL) <= 0) break;
    rest.remove_prefix(piece);
  }
  std::array<char, 100> some{};
  if (below(random, 3) == 0) (void)recv(socket.fd(), some.data(), some.size(), 0);
  if (below(random, 3) == 0) (void)shutdown(socket.fd(), SHUT_WR);
  if (below(random, 3) == 0) socket.reset_when_closed();
  if (below(random, 3) != 0) socket.close();
  return socket;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr long kMostResident = 2'000'000;  // [KiB] it keeps what is freed
#else
constexpr long kMostResident = 100'000;  // [KiB] 5 MB are usual; a request kept per round would be 60 MB a thousand
#endif

/// Of this process [KiB].
long resident() {
  long pages = 0, all = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r"); file != nullptr) {
    if (std::fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
    std::fclose(file);
  }
  return pages * 4;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const std::uint64_t rounds = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 3000;
  const std::string token = random_id();
  std::atomic<std::uint64_t> handled = 0, ticks = 0;
  PeerServer server({.handle =
                         [&](std::string_view) {
                           ++handled;
                           return std::string(100'000, 'r');
                         },
                     .tick = [&] { ++ticks; },
                     .period = std::chrono::milliseconds(10)});
  const PeerAddress address{0, "here", "127.0.0.1", server.listen("127.0.0.1", token)};
  Random random(seed);
  std::deque<Socket> staying;
  std::uint64_t allowed = 0;
  long most = 0;
  std::string bytes;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (bytes.empty() || below(random, 10) != 0) {  // else they are said again
      bytes = some_bytes(random, token, address);
      allowed += may_be_handled(bytes, token, address) ? 1 : 0;
    }
    staying.push_back(misbehave(random, address, bytes));
    while (staying.size() > 200) staying.pop_front();
    if (round % 100 != 0) continue;
    ++allowed;
    most = std::max(most, resident());
    if (most > kMostResident) {
      fmt::print(stderr, "fuzz_peer_server: {} KiB after {} rounds\n", most, round);
      return 1;
    }
    const PeerReply reply = ask_peers(std::span(&address, 1), token, "still there?", std::chrono::seconds(30)).at(0);
    if (reply.result != PeerProbe::Result::ok || reply.text.size() != 100'000) {
      fmt::print(stderr, "fuzz_peer_server: no answer any more ({}); repeat: fuzz fuzz_peer_server {} {}\n", reply.text,
                 seed, round + 1);
      return 1;
    }
  }
  if (handled > allowed) {
    fmt::print(stderr, "fuzz_peer_server: {} requests handled, {} had the token\n", handled.load(), allowed);
    return 1;
  }
  fmt::print("fuzz_peer_server: {} rounds from seed {}: {} requests handled, {} ticks, {} KiB at most\n", rounds, seed,
             handled.load(), ticks.load(), most);
  return 0;
}
