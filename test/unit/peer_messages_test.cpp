// Would catch: evidence that arrives changed, cut or not at all; a message of a broken or hostile peer that crashes who
// reads it, fills its memory, or is believed though it is damaged.

#include "common/watch/peer_messages.h"

#include "common/base/error.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>
#include <string>

using namespace busbar;

namespace {

FinishedStep a_step(std::uint64_t last) {
  return {.phase = Phase::checking,
          .collective = "all_reduce",
          .nbytes = 1ULL << 40,
          .last_entered = last,
          .begun_age_s = 12.25,
          .ended_age_s = 1e-9};
}

RankEvidence a_rank(int rank) {
  RankEvidence e;
  FlightState& f = e.flight;
  f.jobid = "slurm-4711.0";
  f.host = "node3";
  f.rank = rank;
  f.nprocs = 16;
  f.pid = 4242;
  f.pid_start = std::numeric_limits<std::uint64_t>::max();
  f.command = "all_reduce_perf -b 8 -e \"128 M\"";
  f.started_unix_s = 1795000000;
  f.heartbeat_age_s = 0.1;
  f.ending = Ending::signalled;
  f.phase = Phase::timed_loop;
  f.step = "64 MiB float sum, timed loop";
  f.call = CalledOperation{3, "reduce", 16777216, "float", "sum", 7, 67108864, true};
  f.entered = 412;
  f.step_first = 400;
  f.step_calls = 20;
  f.step_age_s = 31.5;
  f.limit_s = 30;
  f.idle_s = 30.0000001;
  f.error = "remote process exited";
  f.finished = {a_step(399), a_step(411)};
  e.process = {ProcessState::Life::alive, 'T', "do_signal_stop"};
  return e;
}

HostEvidence a_host() {
  HostEvidence h;
  h.host = "node3";
  h.reached = true;
  h.why_not = "no answer from 2 ranks in 2 s";
  h.ranks = {a_rank(13), a_rank(14), RankEvidence{}};
  h.net_bytes_per_s = 1234.5;
  h.troubles = {{Trouble::Kind::hardware, "mlx5_3 port 1 is DOWN"},
                {.kind = Trouble::Kind::notice, .text = "äöü", .slows = true, .on_gpu = true}};
  h.probes = {{"node1", PeerProbe::Result::large_lost, true}, {"node2", PeerProbe::Result::ok, false}};
  h.links = {{"node1", JobLink::State::standing}, {"node2", JobLink::State::closed}};
  h.mtu = 9000;
  h.silence = Silence::no_answer;
  return h;
}

/// True where it was accepted; anything but an Error fails the test.
bool accepted(const std::string& message) {
  try {
    (void)decode_host(message);
    return true;
  } catch (const Error&) {
    return false;
  }
}

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("evidence arrives as it was sent, every field of it", "[peers]") {
  const HostEvidence h = decode_host(encode(a_host()));
  CHECK(h.host == "node3");
  CHECK(h.reached);
  CHECK(h.why_not == "no answer from 2 ranks in 2 s");
  CHECK(h.net_bytes_per_s == 1234.5);
  REQUIRE(h.troubles.size() == 2);
  CHECK(h.troubles[0].kind == Trouble::Kind::hardware);
  CHECK(h.troubles[0].text == "mlx5_3 port 1 is DOWN");
  CHECK(h.troubles[1].text == "äöü");
  CHECK_FALSE(h.troubles[0].slows);
  CHECK(h.troubles[1].slows);
  CHECK(h.troubles[1].on_gpu);
  CHECK(h.silence == Silence::no_answer);
  REQUIRE(h.links.size() == 2);
  CHECK(h.links[0].host == "node1");
  CHECK(h.links[0].state == JobLink::State::standing);
  CHECK(h.links[1].state == JobLink::State::closed);
  REQUIRE(h.probes.size() == 2);
  CHECK(h.probes[0].host == "node1");
  CHECK(h.probes[0].result == PeerProbe::Result::large_lost);
  CHECK(h.probes[0].stalled);
  CHECK(h.mtu == 9000);
  CHECK(h.probes[1].result == PeerProbe::Result::ok);
  REQUIRE(h.ranks.size() == 3);
  CHECK(h.ranks[1].flight.rank == 14);
  CHECK_FALSE(h.ranks[2].flight.call.has_value());
  CHECK(h.ranks[2].process.life == ProcessState::Life::unknown);

  const ProcessState& p = h.ranks[0].process;
  CHECK(p.life == ProcessState::Life::alive);
  CHECK(p.state == 'T');
  CHECK(p.wchan == "do_signal_stop");
  const FlightState& f = h.ranks[0].flight;
  CHECK(f.jobid == "slurm-4711.0");
  CHECK(f.host == "node3");
  CHECK(f.rank == 13);
  CHECK(f.nprocs == 16);
  CHECK(f.pid == 4242);
  CHECK(f.pid_start == std::numeric_limits<std::uint64_t>::max());
  CHECK(f.command == "all_reduce_perf -b 8 -e \"128 M\"");
  CHECK(f.started_unix_s == 1795000000);
  CHECK(f.heartbeat_age_s == 0.1);
  CHECK(f.ending == Ending::signalled);
  CHECK(f.phase == Phase::timed_loop);
  CHECK(f.step == "64 MiB float sum, timed loop");
  REQUIRE(f.call.has_value());
  CHECK(*f.call == CalledOperation{3, "reduce", 16777216, "float", "sum", 7, 67108864, true});
  CHECK(f.entered == 412);
  CHECK(f.step_first == 400);
  CHECK(f.step_calls == 20);
  CHECK(f.step_age_s == 31.5);
  CHECK(f.limit_s == 30);
  CHECK(f.idle_s == 30.0000001);
  CHECK(f.error == "remote process exited");
  REQUIRE(f.finished.size() == 2);
  CHECK(f.finished[0].phase == Phase::checking);
  CHECK(f.finished[0].collective == "all_reduce");
  CHECK(f.finished[0].nbytes == 1ULL << 40);
  CHECK(f.finished[1].last_entered == 411);
  CHECK(f.finished[1].begun_age_s == 12.25);
  CHECK(f.finished[1].ended_age_s == 1e-9);
}

TEST_CASE("texts with line ends, control characters or no end of their own arrive cleaned", "[peers]") {
  HostEvidence h;
  h.host = "a\nb\tc\x1b[31m\x7f";
  h.why_not = std::string(5000, 'x');
  h.net_bytes_per_s = std::numeric_limits<double>::quiet_NaN();
  h.ranks.resize(1);
  h.ranks[0].flight.idle_s = std::numeric_limits<double>::infinity();
  h.ranks[0].process.state = '\n';
  const HostEvidence back = decode_host(encode(h));
  CHECK(back.host == "a b c [31m ");
  CHECK(back.why_not == std::string(1000, 'x'));
  CHECK(back.net_bytes_per_s == -1);
  CHECK(back.ranks.at(0).flight.idle_s == 0);
  CHECK(back.ranks.at(0).process.state == ' ');
}

TEST_CASE("evidence of very many ranks still fits into a reply", "[peers]") {
  HostEvidence h = a_host();
  h.ranks.assign(4096, a_rank(1));
  for (RankEvidence& rank : h.ranks) rank.flight.finished.assign(16, a_step(7));
  const std::string message = encode(h);
  CHECK(message.size() <= kMaxReply);
  CHECK(decode_host(message).ranks.size() == 4096);
  // All texts at their longest.
  for (RankEvidence& rank : h.ranks)
    rank.flight.command = rank.flight.step = rank.flight.error = std::string(1000, 'x');
  CHECK(encode(h).size() <= kMaxReply);
  CHECK(decode_host(encode(h)).ranks.size() >= 512);
}

TEST_CASE("every cut and every flipped bit of a message is refused or read, never worse", "[peers]") {
  const std::string good = encode(a_host());
  REQUIRE(accepted(good));
  for (std::size_t n = 0; n < good.size(); ++n) REQUIRE_FALSE(accepted(good.substr(0, n)));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    (void)accepted(bad);
  }
}

TEST_CASE("what encode would not write is refused", "[peers]") {
  const std::string good = encode(a_host());
  CHECK_FALSE(accepted(good + '\0'));
  CHECK_FALSE(accepted(good + "more"));
  CHECK_FALSE(accepted("x" + good));
  CHECK_FALSE(accepted(replaced(good, "evidence 4\n", "evidence 3\n")));
  CHECK_FALSE(accepted(replaced(good, "do_signal_stop", "do_signal\nstop")));
  CHECK_FALSE(accepted(replaced(good, bytes_of(1234.5), bytes_of(std::numeric_limits<double>::quiet_NaN()))));
  CHECK_FALSE(accepted(replaced(good, bytes_of(1234.5), bytes_of(std::numeric_limits<double>::infinity()))));
  CHECK(accepted(replaced(good, bytes_of(1234.5), bytes_of(1234.25))));
  CHECK_FALSE(accepted(replaced(good, "\x01T", "\x01\n")));
  // Enumerators that do not exist: Life 3, Result 5 (both last in their lists); a truth that is neither.
  CHECK_FALSE(accepted(replaced(good, "\x01T", "\x03T")));
  CHECK(accepted(replaced(good, "node1\x04\x01", "node1\x03\x01")));
  CHECK_FALSE(accepted(replaced(good, "node1\x04\x01", "node1\x05\x01")));
  CHECK_FALSE(accepted(replaced(good, "node1\x04\x01", "node1\x04\x02")));
  // An optional value is there or not: the call's communicator is the first number after that.
  const std::string call = bytes_of(3) + bytes_of(std::uint64_t{6}) + "reduce";
  CHECK_FALSE(accepted(replaced(good, "\x01" + call, "\x02" + call)));
}

TEST_CASE("a count that the message cannot hold ends with the message", "[peers]") {
  const std::string nothing = encode({});  // the ranks are its last field, none of them
  CHECK(accepted(nothing));
  const std::string title = nothing.substr(0, nothing.find('\n') + 1);
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    CHECK_FALSE(accepted(nothing.substr(0, nothing.size() - sizeof count) + bytes_of(count)));
    CHECK_FALSE(accepted(title + bytes_of(count) + nothing.substr(title.size() + sizeof count)));
  }
  CHECK_FALSE(accepted(std::string(kMaxReply + 1, '\n')));
  CHECK_FALSE(accepted(title + std::string(kMaxReply - title.size(), '\n')));
  CHECK_FALSE(accepted(title + std::string(kMaxReply - title.size(), '\0')));
}
