// Would catch: a watchdog whose threads and the main thread disturb each other (what `make test-tsan` sees), answers
// that are not those of the process, and one that is destroyed while it is about to end the process.

#include "common/watch/watchdog.h"

#include "common/base/error.h"
#include "common/watch/collector.h"
#include "common/watch/host_observer.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_client.h"
#include "common/watch/peer_messages.h"
#include "common/watch/peer_server.h"
#include "null_backend.h"

#include <catch2/catch.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

using namespace busbar;

namespace {

constexpr std::chrono::milliseconds kAmple{20'000};
const std::string kToken = "00112233445566778899aabbccddeeff";

/// A job of this process alone.
class Alone {
 public:
  Alone() : watchdog_(0, {.rank = 0, .nprocs = 1, .local_size = 1, .host = "here", .command = "test"}, nullptr) {
    address_ = watchdog_.listen(0, true, kToken);
    watchdog_.connect("watchdog-test-" + std::to_string(getpid()), {address_});
  }
  Watchdog& watchdog() { return watchdog_; }
  std::string ask(std::string_view what) const {
    return ask_peers(std::span(&address_, 1), kToken, what, kAmple).at(0).text;
  }

 private:
  Watchdog watchdog_;
  PeerAddress address_;
};

}  // namespace

TEST_CASE("a watchdog tells of the process while that works", "[watchdog]") {
  Alone job;
  NullBackend backend;
  const auto attached = job.watchdog().attach(backend);
  std::atomic<bool> over = false;
  std::vector<HostEvidence> told;
  std::thread asks([&] {
    for (int i = 0; i < 30; ++i) told.push_back(decode_host(job.ask(kAskEvidence)));
    over = true;
  });
  const CalledOperation call{0, "all_reduce", 8, "float", "sum", -1, 32, false};
  const std::vector<Buffers> buffers(1);
  std::uint64_t made = 0;
  // Until all was asked, and no longer than until one ought to have asked.
  for (int step = 0; step < 1'000'000 && !over; ++step) {
    job.watchdog().begin(Phase::timed_loop, "a step", call, 10, 1);
    for (int i = 0; i < 10; ++i, ++made) backend.launch(0, {}, buffers);
    job.watchdog().rest();
    std::this_thread::yield();
  }
  asks.join();
  REQUIRE(told.size() == 30);
  std::uint64_t before = 0;
  for (const HostEvidence& host : told) {
    CHECK(host.host == "here");
    REQUIRE(host.ranks.size() == 1);
    const FlightState& flight = host.ranks[0].flight;
    CHECK(flight.pid == getpid());
    CHECK(flight.entered >= before);
    CHECK(flight.entered <= made);
    before = flight.entered;
  }
}

TEST_CASE("backends come and go while a watchdog is asked", "[watchdog]") {
  Alone job;
  std::thread asks([&] {
    for (int i = 0; i < 20; ++i) CHECK(job.ask(kPing) == "here");
  });
  for (int i = 0; i < 500; ++i) {
    NullBackend backend;
    const auto attached = job.watchdog().attach(backend);
    job.watchdog().begin(Phase::initialization, "opening");
  }
  asks.join();
}

TEST_CASE("a process that is told to leave leaves with 4, also where its work is over first", "[watchdog]") {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // should it stay
    {
      const Alone job;
      if (job.ask(kStop) != "leaving") _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == static_cast<int>(ExitCode::timeout));
}

TEST_CASE("an observer may be told to look by one thread while another tells it too", "[watchdog]") {
  JobView view;
  view.jobid = "no-such-job";
  view.host = "here";
  for (int round = 0; round < 20; ++round) {
    HostObserver observer;
    std::thread first([&] { observer.look_closely(view); });
    for (int look = 0; look < 200; ++look) {
      observer.look_closely(view);
      std::this_thread::yield();
    }
    CHECK(observer.evidence(view).host == "here");
    first.join();
  }
}

TEST_CASE("a job for whose watchdog the system has no thread left runs without one", "[watchdog]") {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    // A little more memory than it has, and no stack for another thread.
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit little{pages * 4096 + (3U << 20), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &little);
    try {  // those of threads that are over are used again
      for (int i = 0; i < 100000; ++i) std::thread([] { pause(); }).detach();
    } catch (const std::system_error&) {
    }
    try {
      Watchdog watchdog(0, {.rank = 0, .nprocs = 1, .local_size = 1, .host = "here", .command = "test"}, nullptr);
      const PeerAddress own = watchdog.listen(0, true, kToken);
      watchdog.connect("watchdog-test-alone", {own});
      watchdog.begin(Phase::initialization, "a step");
      _exit(own.ip.empty() && !watchdog.warning().empty() ? 0 : 1);
    } catch (...) {
      _exit(2);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a wrong interface is a warning, and the watchers use another", "[watchdog]") {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    setenv("NCCL_SOCKET_IFNAME", "=no-such-interface", 1);
    try {
      Watchdog watchdog(0, {.rank = 0, .nprocs = 2, .local_size = 1, .host = "here", .command = "test"}, nullptr);
      (void)watchdog.listen(0, false, kToken);
      _exit(watchdog.warning().find("NCCL_SOCKET_IFNAME=") == std::string::npos ? 1 : 0);
    } catch (...) {
      _exit(2);
    }
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a card whose counters never answer does not stop the watcher's heart", "[watchdog]") {
  // What a look finds may come never: the observer is told to look, asked and destroyed meanwhile.
  JobView view;
  view.jobid = "no-such-job";
  view.host = "here";
  HostObserver observer;
  observer.look_early();
  observer.look_early();
  CHECK(observer.evidence(view).host == "here");
}
