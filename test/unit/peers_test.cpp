// Would catch: a watcher that a frozen or dead peer, a stranger or babble can block, crash or fill up, or that hears a
// word twice or one that was changed on its way; one that does not tell a dead process from a frozen one or a host
// without a route; answers that arrive cut; ticks that wait for a slow client; a last word that is lost on who is late;
// and signals that its thread takes away from the main thread.

#include "common/base/error.h"
#include "common/base/random_source.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_messages.h"
#include "common/watch/peer_server.h"

#include <catch2/catch.hpp>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <future>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace busbar;

namespace {

using Result = PeerProbe::Result;
using std::chrono::milliseconds;

constexpr milliseconds kAmple{20'000};  // ends only what is broken
constexpr milliseconds kBrief{700};     // for peers that never answer, where waiting is the point

const std::string kToken = "00112233445566778899aabbccddeeff";
const std::string kOther = "10112233445566778899aabbccddeeff";

PeerAddress at(std::uint16_t port, const std::string& ip = "127.0.0.1") { return {0, "here", ip, port}; }

/// A server that answers "re: REQUEST".
class Answering {
 public:
  explicit Answering(const std::string& ip = "127.0.0.1")
      : server_({.handle = [](std::string_view request) { return "re: " + std::string(request); },
                 .tick = [this] { ++ticks_; },
                 .period = milliseconds(5)}),
        address_(at(server_.listen(ip, kToken), ip)) {}

  const PeerAddress& address() const { return address_; }
  int ticks() const { return ticks_; }
  PeerServer& server() { return server_; }

 private:
  std::atomic<int> ticks_ = 0;
  PeerServer server_;
  PeerAddress address_;
};

/// What a stopped process looks like from outside: its kernel takes connections, it never reads.
class Frozen {
 public:
  Frozen() : listener_(make_tcp_socket(AF_INET)) {
    SocketAddress address = *socket_address("127.0.0.1", 0);
    REQUIRE(bind(listener_.fd(), address.get(), address.length) == 0);
    REQUIRE(::listen(listener_.fd(), 64) == 0);
    REQUIRE(getsockname(listener_.fd(), address.get(), &address.length) == 0);
    address_ = at(port_of(address));
  }
  const PeerAddress& address() const { return address_; }
  const Socket& listener() const { return listener_; }

 private:
  Socket listener_;
  PeerAddress address_;
};

/// A port at which nobody listens.
PeerAddress nobody() {
  const Socket bound = make_tcp_socket(AF_INET);
  SocketAddress address = *socket_address("127.0.0.1", 0);
  REQUIRE(bind(bound.fd(), address.get(), address.length) == 0);
  REQUIRE(getsockname(bound.fd(), address.get(), &address.length) == 0);
  return at(port_of(address));
}

PeerReply ask_one(const PeerAddress& peer, std::string_view request, milliseconds limit = kAmple,
                  const std::string& token = kToken) {
  return ask_peers(std::span(&peer, 1), token, request, limit).at(0);
}

/// What a client sends that knows the token.
std::string proven(const PeerAddress& to, std::string_view request, const std::string& token = kToken) {
  return proven_request(token, asked_address(to.ip, to.port), random_id(), PeerKind::message, request);
}

/// What comes behind the server's proof.
std::string reply_in(const std::string& heard) { return std::string(parse_reply(heard).payload); }

/// A client that does as it likes.
class Rude {
 public:
  explicit Rude(const PeerAddress& to, const std::string& from = {}) : socket_(make_tcp_socket(AF_INET)) {
    if (!from.empty()) {
      SocketAddress own = *socket_address(from, 0);
      REQUIRE(bind(socket_.fd(), own.get(), own.length) == 0);
    }
    const SocketAddress address = *socket_address(to.ip, to.port);
    if (connect(socket_.fd(), address.get(), address.length) != 0) REQUIRE(errno == EINPROGRESS);
    wait(POLLOUT);
  }
  void say(std::string_view bytes) { (void)send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// Whether there is something to hear, be it the end.
  bool hears() {
    pollfd one{socket_.fd(), POLLIN, 0};
    return poll(&one, 1, 0) == 1;
  }
  void say_no_more() { (void)shutdown(socket_.fd(), SHUT_WR); }  // the other side may have ended it
  /// All that comes until the other side ends it.
  std::string hear() {
    std::string all;
    std::array<char, 4096> chunk{};
    ssize_t n = 1;
    while (n > 0) {
      REQUIRE(all.size() <= kReplyHeader + kMaxReply);
      wait(POLLIN);
      n = recv(socket_.fd(), chunk.data(), chunk.size(), 0);
      if (n > 0) all.append(chunk.data(), static_cast<std::size_t>(n));
    }
    return all;
  }

 private:
  void wait(short events) {
    pollfd one{socket_.fd(), events, 0};
    REQUIRE(poll(&one, 1, static_cast<int>(kAmple.count())) == 1);
  }

  Socket socket_;
};

/// Waits for what another thread does; false where it does not.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kAmple;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("a watcher answers requests of any size, in the order of the peers", "[peers]") {
  Answering a, b;
  const std::vector<PeerAddress> peers{a.address(), b.address(), a.address()};
  for (const std::size_t nbytes : {std::size_t{0}, std::size_t{1}, kMaxRequest}) {
    const std::string request(nbytes, 'x');
    const auto replies = ask_peers(peers, kToken, request, kAmple);
    REQUIRE(replies.size() == 3);
    for (const PeerReply& reply : replies) {
      CHECK(reply.result == Result::ok);
      CHECK(reply.text == "re: " + request);
    }
  }
  CHECK(ask_peers({}, kToken, "", kAmple).empty());
  CHECK_THROWS_AS(ask_one(a.address(), std::string(kMaxRequest + 1, 'x')), Error);
}

TEST_CASE("the largest reply arrives whole, a larger one does not arrive", "[peers]") {
  std::string big(kMaxReply, '\0');
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 2654435761U >> 13);
  std::atomic<bool> too_big = false;
  PeerServer server({.handle = [&](std::string_view) { return too_big ? big + "x" : big; }, .tick = {}});
  const PeerAddress address = at(server.listen("127.0.0.1", kToken));
  const PeerReply reply = ask_one(address, "?");
  CHECK(reply.result == Result::ok);
  CHECK((reply.text == big));
  too_big = true;
  CHECK(ask_one(address, "?").result == Result::refused);
}

TEST_CASE("thousands of peers are asked over a few hundred connections", "[peers]") {
  Answering a, b, c;
  const std::array<PeerAddress, 3> three{a.address(), b.address(), c.address()};
  std::vector<PeerAddress> peers;
  for (std::size_t i = 0; i < 1500; ++i) peers.push_back(three[i % 3]);
  for (const PeerReply& reply : ask_peers(peers, kToken, "hello", kAmple)) REQUIRE(reply.text == "re: hello");
}

TEST_CASE("the dead, the frozen and the unreachable are told apart", "[peers][slow]") {
  Answering alive;
  Frozen frozen;
  // The kernel has no route for TCP to a multicast address, on any machine.
  const std::vector<PeerAddress> peers{frozen.address(), nobody(), alive.address(), at(1, "nonsense"),
                                       at(9, "224.0.0.1")};
  const auto replies = ask_peers(peers, kToken, "hello", kBrief);
  CHECK(replies[0].result == Result::timed_out);
  CHECK(replies[0].connected);
  CHECK(replies[1].result == Result::refused);
  CHECK_FALSE(replies[1].connected);
  CHECK(replies[2].result == Result::ok);
  CHECK(replies[3].result == Result::no_route);
  CHECK(replies[4].result == Result::no_route);
  for (const std::size_t i : {0, 1, 3, 4}) CHECK_FALSE(replies[i].text.empty());
}

TEST_CASE("frozen peers in front do not keep those behind them from being asked", "[peers][slow]") {
  Answering alive;
  std::array<Frozen, 6> frozen;
  std::vector<PeerAddress> peers;
  for (std::size_t i = 0; i < 300; ++i) peers.push_back(frozen[i % frozen.size()].address());
  peers.push_back(alive.address());
  const auto replies = ask_peers(peers, kToken, "hello", milliseconds(2500));
  CHECK(replies.back().result == Result::ok);
  CHECK(replies.front().result == Result::timed_out);
}

TEST_CASE("answers that came while the asking process did not run are not missed", "[peers][slow]") {
  std::atomic<bool> asked = false, away = false;
  PeerServer server({.handle =
                         [&](std::string_view request) {
                           asked = asked || request == "how are you";
                           while (asked && !away) std::this_thread::sleep_for(milliseconds(1));
                           return "re: " + std::string(request);
                         },
                     .tick = [] {}});
  const PeerAddress peer = at(server.listen("127.0.0.1", kToken));
  constexpr milliseconds kLimit{1200};
  const pid_t asker = fork();
  if (asker == 0) {
    alarm(60);
    const PeerReply reply = ask_peers(std::span(&peer, 1), kToken, "how are you", kLimit).at(0);
    _exit(reply.result == Result::ok && reply.text == "re: how are you" ? 0 : 1);
  }
  int status = 0;
  while (!asked && waitpid(asker, &status, WNOHANG) == 0) std::this_thread::sleep_for(milliseconds(1));
  kill(asker, SIGSTOP);
  CHECK(waitpid(asker, &status, WUNTRACED) == asker);
  away = true;
  std::this_thread::sleep_for(kLimit + milliseconds(100));
  // The server answers in the order in which it was asked.
  CHECK(ask_one(peer, "ping").text == "re: ping");
  kill(asker, SIGCONT);
  CHECK(waitpid(asker, &status, 0) == asker);
  CHECK(status == 0);
}

TEST_CASE("a word reaches who was too busy to answer, after the reporter has gone", "[peers][slow]") {
  std::promise<void> entered, release;
  std::promise<std::string> heard;
  const auto handle = [&](std::string_view request) -> std::string {
    if (request == "be busy") {
      entered.set_value();
      release.get_future().wait();
    } else {
      heard.set_value(std::string(request));
    }
    return "noted";
  };
  PeerServer server({.handle = handle, .tick = {}});
  const PeerAddress address = at(server.listen("127.0.0.1", kToken));
  std::thread busy([&] { (void)ask_one(address, "be busy"); });
  entered.get_future().wait();
  CHECK(ask_one(address, "stop", kBrief).result == Result::timed_out);
  release.set_value();
  std::future<std::string> word = heard.get_future();
  REQUIRE(word.wait_for(kAmple) == std::future_status::ready);
  CHECK(word.get() == "stop");
  busy.join();
}

TEST_CASE("a wrong token gets no answer and disturbs nobody", "[peers]") {
  Answering answering;
  CHECK(ask_one(answering.address(), "hello", kAmple, kOther).result == Result::refused);
  CHECK(ask_one(answering.address(), "hello").result == Result::ok);
  CHECK_THROWS_AS(ask_one(answering.address(), "hello", kAmple, "short"), Error);
}

TEST_CASE("a peer that cuts a connection is asked again, a few times", "[peers]") {
  Frozen host;
  std::atomic<int> cut = 0;
  std::atomic<bool> over = false;
  std::thread cuts([&] {
    while (!over) {
      pollfd one{host.listener().fd(), POLLIN, 0};
      if (poll(&one, 1, 10) <= 0) continue;
      Socket socket(accept4(host.listener().fd(), nullptr, nullptr, SOCK_CLOEXEC));
      char first = 0;
      if (recv(socket.fd(), &first, 1, 0) == 1) ++cut;
      socket.reset_when_closed();
    }
  });
  const PeerReply reply = ask_one(host.address(), "hello");
  over = true;
  cuts.join();
  CHECK(reply.result == Result::refused);
  CHECK(cut == 3);
}

TEST_CASE("probing tells who answers", "[peers][slow]") {
  Answering alive;
  Frozen frozen;
  std::vector<PeerAddress> peers{alive.address(), frozen.address(), nobody()};
  peers[0].host = "alpha";
  const auto probes = probe_peers(peers, kToken, milliseconds(1500));
  CHECK(probes[0].host == "alpha");
  CHECK(probes[0].result == Result::ok);
  CHECK(probes[1].result == Result::timed_out);
  CHECK(probes[2].result == Result::refused);
}

TEST_CASE("probing tells where small messages pass and large ones do not", "[peers][slow]") {
  // A host whose MTU has shrunk keeps large echoes; to who asks that is the same as a path that loses them.
  Frozen host;
  std::atomic<bool> over = false;
  PeerConnections connections(Socket(dup(host.listener().fd())), kToken, [] { return true; });
  std::thread serves([&] {
    while (!over) {
      std::vector<pollfd> events;
      (void)connections.add_events(events);
      poll(events.data(), events.size(), 10);
      connections.serve(
          events, [](std::string_view) { return "served"; }, [] {});
    }
  });
  const auto probes = probe_peers(std::span(&host.address(), 1), kToken, milliseconds(2500));
  const PeerReply reply = ask_one(host.address(), std::string(1000, 'x'));
  over = true;
  serves.join();
  CHECK(probes[0].result == Result::large_lost);
  CHECK(reply.text == "served");
}

TEST_CASE("a client that has ended its own direction still gets the whole reply", "[peers]") {
  const std::string big(kMaxReply, 'r');
  PeerServer server({.handle = [&](std::string_view) { return big; }, .tick = {}});
  const PeerAddress server_address = at(server.listen("127.0.0.1", kToken));
  Rude client(server_address);
  client.say(proven(server_address, "hello"));
  client.say_no_more();
  CHECK(client.hear().size() == kReplyHeader + kMaxReply);
}

TEST_CASE("a request may come in pieces", "[peers][slow]") {
  Answering answering;
  Rude slow(answering.address());
  const auto say_slowly = [&](const std::string& bytes) {
    for (const char c : bytes) {
      slow.say({&c, 1});
      const int ticks = answering.ticks();
      REQUIRE(comes_true([&] { return answering.ticks() != ticks; }));  // so that pieces are read one by one
    }
  };
  say_slowly(proven(answering.address(), "hello"));
  CHECK(reply_in(slow.hear()) == "re: hello");
}

TEST_CASE("what is not a request is dropped at once", "[peers]") {
  Answering answering;
  const std::string good = proven(answering.address(), "hello");
  const auto changed = [&](std::size_t at, char to) {
    std::string bytes = good;
    bytes[at] = to;
    return bytes;
  };
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1, '\0'), changed(4, '\x01'),
                                   changed(8, '\x7f'), changed(5, '\x02'), changed(7, 'x'), changed(kNonceAt, 'x'),
                                   good + "tail", request_bytes(PeerKind::message, kOther, kToken, "hello"),
                                   proven(at(1), "hello"), proven(answering.address(), "hello", kOther)}) {
    Rude rude(answering.address());
    rude.say(bytes);
    CHECK(rude.hear().empty());
  }
  Rude leaves(answering.address());
  leaves.say(good.substr(0, 60));
  leaves.say_no_more();
  CHECK(leaves.hear().empty());
}

TEST_CASE("a stranger on a dead rank's port neither learns the token nor answers for the dead", "[peers]") {
  Frozen host;
  std::string heard;
  for (const std::string& answer : {reply_bytes(kOther, "yes"), reply_bytes(kToken, "yes")}) {
    std::thread stranger([&] {
      pollfd one{host.listener().fd(), POLLIN, 0};
      if (poll(&one, 1, static_cast<int>(kAmple.count())) != 1) return;
      const Socket socket(accept4(host.listener().fd(), nullptr, nullptr, SOCK_CLOEXEC));
      (void)send(socket.fd(), answer.data(), answer.size(), MSG_NOSIGNAL);
      std::array<char, 1000> chunk{};
      for (ssize_t n = 1; n > 0;) {
        n = recv(socket.fd(), chunk.data(), chunk.size(), 0);
        if (n > 0) heard.append(chunk.data(), static_cast<std::size_t>(n));
      }
    });
    CHECK(ask_one(host.address(), "hello").result == Result::refused);
    stranger.join();
  }
  CHECK(heard.find(kToken) == std::string::npos);
  // What it heard is of no use at another port.
  Answering alive;
  Rude replays(alive.address());
  replays.say(proven(host.address(), "stop"));
  CHECK(replays.hear().empty());
}

TEST_CASE("what was said once is not heard again, nor anything else under its proof", "[peers]") {
  Answering answering;
  const auto answer_to = [&](const std::string& bytes) {
    Rude client(answering.address());
    client.say(bytes);
    client.say_no_more();
    return reply_in(client.hear());
  };
  const std::string stop = proven(answering.address(), "stop");
  CHECK(answer_to(stop) == "re: stop");
  CHECK(answer_to(stop).empty());
  std::string ping = proven(answering.address(), "ping");
  CHECK(answer_to(ping.substr(0, ping.size() - 4) + "stop").empty());
  ping[5] = '\x01';  // an echo of it
  CHECK(answer_to(ping).empty());
  ping[5] = '\0';
  CHECK(answer_to(ping) == "re: ping");  // what was never heard in full is new
}

TEST_CASE("a reply that was changed on its way is none", "[peers]") {
  Frozen host;
  const std::string asked = asked_address(host.address().ip, host.address().port);
  const auto answered_with = [&](std::string_view meant, std::string_view sent) {
    std::thread between([&] {
      pollfd one{host.listener().fd(), POLLIN, 0};
      if (poll(&one, 1, static_cast<int>(kAmple.count())) != 1) return;
      const Socket socket(accept4(host.listener().fd(), nullptr, nullptr, SOCK_CLOEXEC));
      std::array<char, kRequestHeader> head{};
      if (recv(socket.fd(), head.data(), head.size(), MSG_WAITALL) != static_cast<ssize_t>(head.size())) return;
      const std::string_view nonce(head.data() + kNonceAt, kTokenLength);
      const std::string bytes = reply_bytes(reply_proof(kToken, nonce, asked, meant), sent);
      (void)send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      char rest = 0;
      while (recv(socket.fd(), &rest, 1, 0) > 0) {
      }
    });
    const PeerReply reply = ask_one(host.address(), "how are you");
    between.join();
    return reply;
  };
  CHECK(answered_with("moves", "moves").text == "moves");
  CHECK(answered_with("moves", "hangs").result == Result::refused);
}

TEST_CASE("proofs are HMAC-SHA256 of who proves, the nonce, the address that was asked and what is said", "[peers]") {
  // By Python: hmac.new(token, b"client " + b"a" * 32 + b" 192.0.2.7 4711 0\nhello", "sha256").hexdigest()[:32], and
  // b"server " + b"a" * 32 + b" 192.0.2.7 4711\nyes"
  const std::string nonce(32, 'a'), to = asked_address("192.0.2.7", 4711);
  CHECK(request_proof(kToken, nonce, to, PeerKind::message, "hello") == "e64aea20adc90c0d6036d301ab0d70a6");
  CHECK(request_proof(kToken, nonce, to, PeerKind::echo, "hello") == "fd473f5a2857ede1f3bc685a52fb4669");
  CHECK(reply_proof(kToken, nonce, to, "yes") == "0f0bbbafce58eff26806e0a9453b4183");
}

static void serve_once(PeerConnections& connections) {
  std::vector<pollfd> events;
  (void)connections.add_events(events);
  poll(events.data(), events.size(), 1);
  connections.serve(
      events, [](std::string_view) { return "served"; }, [] {});
}

TEST_CASE("silent strangers on all places give way after a second to those with the token", "[peers]") {
  Frozen host;  // its listener, which is served here and on a clock of our own
  PeerConnections::Clock::time_point now{};
  PeerConnections connections(
      Socket(dup(host.listener().fd())), kToken, [] { return false; }, [&] { return now; });
  const auto serve = [&] { serve_once(connections); };
  const auto gone = [](std::vector<Rude>& clients) {
    return std::count_if(clients.begin(), clients.end(), [](Rude& client) { return client.hears(); });
  };
  std::vector<Rude> first, later;
  static_assert(PeerConnections::kMost == 4 * PeerConnections::kMostStrangers);
  for (std::size_t i = 0; i < PeerConnections::kMost; ++i)
    first.emplace_back(host.address(), "127.0.0." + std::to_string(2 + i / PeerConnections::kMostStrangers));
  serve();
  for (int i = 0; i < 16; ++i) later.emplace_back(host.address(), "127.0.0.6");
  Rude client(host.address());
  client.say(proven(host.address(), "hello"));
  client.say_no_more();
  for (const milliseconds when : {milliseconds(0), milliseconds(999)}) {
    now = PeerConnections::Clock::time_point(when);
    for (int i = 0; i < 3; ++i) serve();
    CHECK_FALSE(client.hears());
    CHECK(gone(first) == 0);
  }
  now = PeerConnections::Clock::time_point(milliseconds(1000));
  for (int i = 0; i < 1000 && !client.hears(); ++i) serve();
  serve();
  CHECK(reply_in(client.hear()) == "served");
  // The 17 that came later needed places, and one was kept ready.
  CHECK(gone(first) == 18);
  CHECK(gone(later) == 0);
}

TEST_CASE("strangers of one address, however many, take no place of those with the token", "[peers]") {
  Frozen host;
  PeerConnections connections(
      Socket(dup(host.listener().fd())), kToken, [] { return false; },
      [] { return PeerConnections::Clock::time_point{}; });
  const auto serve = [&] { serve_once(connections); };
  std::vector<Rude> strangers;
  for (int round = 0; round < 3; ++round) {  // at one time: no second passes in which a silent one would give way
    for (std::size_t i = 0; i < PeerConnections::kMost; ++i) {
      strangers.emplace_back(host.address());
      strangers.back().say(proven(host.address(), "hello").substr(0, 1));
    }
    for (int i = 0; i < 3; ++i) serve();
  }
  const auto gone = std::ranges::count_if(strangers, [](Rude& stranger) { return stranger.hears(); });
  CHECK(static_cast<std::size_t>(gone) == strangers.size() - PeerConnections::kMostStrangers);
  for (const char* from : {"127.0.0.1", "127.0.0.2"}) {
    Rude client(host.address(), from);
    client.say(proven(host.address(), "hello"));
    client.say_no_more();
    for (int i = 0; i < 100 && !client.hears(); ++i) serve();
    CHECK(reply_in(client.hear()) == "served");
  }
}

TEST_CASE("a watcher ticks at once, again and again, and under load", "[peers]") {
  std::promise<void> first;
  PeerServer server({.handle = [](std::string_view) { return std::string(); },
                     .tick = [&] { first.set_value(); },
                     .period = std::chrono::hours(1)});
  REQUIRE(first.get_future().wait_for(kAmple) == std::future_status::ready);

  Answering busy;
  const int before = busy.ticks();
  const std::vector<PeerAddress> peers(400, busy.address());
  for (int times = 0; times < 1000 && busy.ticks() < before + 5; ++times) {
    for (const PeerReply& reply : ask_peers(peers, kToken, "hello", kAmple)) REQUIRE(reply.result == Result::ok);
  }
  CHECK(busy.ticks() >= before + 5);
}

TEST_CASE("between two slow requests there is time for a tick", "[peers]") {
  constexpr milliseconds kPeriod{2};
  int in_a_row = 0, most = 0;  // of the server's thread
  {
    PeerServer server({.handle =
                           [&](std::string_view) {
                             most = std::max(most, ++in_a_row);
                             const auto begun = std::chrono::steady_clock::now();
                             while (std::chrono::steady_clock::now() <= begun + kPeriod) std::this_thread::yield();
                             return std::string("slow");
                           },
                       .tick = [&] { in_a_row = 0; },
                       .period = kPeriod});
    const std::vector<PeerAddress> peers(40, at(server.listen("127.0.0.1", kToken)));
    for (const PeerReply& reply : ask_peers(peers, kToken, "hello", kAmple)) CHECK(reply.text == "slow");
  }
  CHECK(most == 1);
}

TEST_CASE("what the hooks throw does not end the watcher", "[peers]") {
  std::atomic<int> ticks = 0;
  PeerServer server({.handle = [](std::string_view) -> std::string { throw std::runtime_error("no"); },
                     .tick =
                         [&] {
                           ++ticks;
                           throw 1;
                         },
                     .period = milliseconds(1)});
  const PeerAddress address = at(server.listen("127.0.0.1", kToken));
  CHECK(ask_one(address, "hello").result == Result::refused);
  CHECK(ask_one(address, "hello").result == Result::refused);
  const int before = ticks;
  CHECK(comes_true([&] { return ticks >= before + 3; }));
}

TEST_CASE("a watcher can listen elsewhere, and then no longer where it did", "[peers]") {
  PeerServer server({.handle = [](std::string_view) { return std::string("here"); }, .tick = {}});
  const PeerAddress first = at(server.listen("127.0.0.1", kToken));
  CHECK(ask_one(first, "?").result == Result::ok);
  const PeerAddress second = at(server.listen("127.0.0.2", kToken), "127.0.0.2");
  CHECK(ask_one(second, "?").result == Result::ok);
  CHECK(ask_one(first, "?").result == Result::refused);
}

TEST_CASE("a watcher that cannot listen says why", "[peers]") {
  PeerServer server({.handle = {}, .tick = {}});
  CHECK_THROWS_AS(server.listen("192.0.2.77", kToken), Error);  // TEST-NET-1 (RFC 5737): not an address of this host
  CHECK_THROWS_AS(server.listen("localhost", kToken), Error);
  CHECK_THROWS_AS(server.listen("127.0.0.1", "short"), Error);
  CHECK(server.listen("127.0.0.1", kToken) != 0);
}

TEST_CASE("signals are for other threads than the watcher's", "[peers]") {
  std::promise<sigset_t> mask;
  std::atomic<bool> told = false;
  PeerServer server({.handle = {}, .tick = [&] {
                       sigset_t set;
                       pthread_sigmask(SIG_SETMASK, nullptr, &set);
                       if (!told.exchange(true)) mask.set_value(set);
                     }});
  const sigset_t set = mask.get_future().get();
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGALRM, SIGPIPE, SIGCHLD}) CHECK(sigismember(&set, signal) == 1);
  CHECK(sigismember(&set, SIGSEGV) == 0);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  CHECK(sigismember(&own, SIGTERM) == 0);
}

TEST_CASE("watchers talk over IPv6 where the host has it", "[peers]") {
  try {
    Answering six("::1");
    const PeerReply reply = ask_one(six.address(), "hello");
    CHECK(reply.text == "re: hello");
  } catch (const Error& error) {
    WARN("no IPv6 here: " << error.what());
  }
}
