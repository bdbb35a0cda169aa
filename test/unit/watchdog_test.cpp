// Would catch: a watchdog whose threads and the main thread disturb each other (what `make test-tsan` sees), answers
// that are not those of the process, and one that is destroyed while it is about to end the process; one that a system
// without threads silences, that waits for a file before it speaks, or ends a job that somebody debugs.

#include "common/watch/watchdog.h"

#include "common/base/error.h"
#include "common/processes/child.h"
#include "common/watch/collector.h"
#include "common/watch/flight_layout.h"
#include "common/watch/flight_record.h"
#include "common/watch/peer_address.h"
#include "common/watch/peer_messages.h"
#include "common/watch/peer_server.h"
#include "fake_root.h"
#include "null_backend.h"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace busbar;

namespace {

constexpr std::chrono::milliseconds kAmple{20'000};
constexpr double kBrief = 0.2;  // [s] a limit that passes
const std::string kToken = "00112233445566778899aabbccddeeff";
const CalledOperation kCall{0, "all_reduce", 8, "float", "sum", -1, 32, false};

/// A process of its own, which is ended where it does not end.
class Child {
 public:
  template <class Work>
  explicit Child(const Work& work) {
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      alarm(60);
      dup2(ends[1], STDERR_FILENO);
      int code = 2;
      try {
        code = work();
      } catch (...) {  // told by the code
      }
      _exit(code);
    }
    close(ends[1]);
    stderr_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(stderr_);
  }

  pid_t pid() const { return pid_; }
  /// What it has said on stderr so far, once that holds `text` or it has ended.
  const std::string& hear(std::string_view text) {
    std::array<char, 4096> chunk{};
    for (ssize_t n = 1; n > 0 && said_.find(text) == std::string::npos;) {
      n = read(stderr_, chunk.data(), chunk.size());
      if (n > 0) said_.append(chunk.data(), static_cast<std::size_t>(n));
    }
    return said_;
  }
  const std::string& hear_all() { return hear(std::string_view("\0", 1)); }
  /// Whether it has said something that was not heard, or ended.
  bool speaks() const {
    constexpr int kPatience = 20;  // [ms] for whoever asks again and again
    pollfd one{stderr_, POLLIN, 0};
    return poll(&one, 1, kPatience) != 0;
  }
  /// Waits for its end; minus the signal that ended it.
  int code() {
    int status = 0;
    REQUIRE(waitpid(std::exchange(pid_, 0), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  int stderr_ = -1;
  std::string said_;
};

/// An address space with room for so many bytes more.
void limit_memory(rlim_t more) {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit little{pages * 4096 + more, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &little);
}

std::size_t times(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

JobView view_of(int rank, int nprocs, int local_size) { return {{}, "here", {}, rank, nprocs, local_size, {}, {}, {}}; }

/// A job of this process alone.
class Alone {
 public:
  explicit Alone(double timeout_s = 0, Watchdog::Json json = nullptr)
      : watchdog_(timeout_s, view_of(0, 1, 1), "test", std::move(json)) {
    address_ = watchdog_.listen(0, true, kToken);
    watchdog_.connect(name_of(getpid()), {address_});
  }
  Watchdog& watchdog() { return watchdog_; }
  const PeerAddress& address() const { return address_; }
  static std::string name_of(pid_t process) { return "watchdog-test-" + std::to_string(process); }
  std::string ask(std::string_view what) const { return ask_at(address_, what); }
  static std::string ask_at(const PeerAddress& address, std::string_view what) {
    return ask_peers(std::span(&address, 1), kToken, what, kAmple).at(0).text;
  }
  /// Does nothing any more, in a step whose limit will pass.
  [[noreturn]] void hang() {
    watchdog_.begin_step(Phase::timed_loop, "a step", kCall, 10, 1);
    pause();
    _exit(3);  // not in practice: no signal is handled
  }

 private:
  Watchdog watchdog_;
  PeerAddress address_;
};

}  // namespace

TEST_CASE("a watchdog tells of the process while that works", "[watchdog][slow]") {
  Alone job;
  NullBackend backend;
  const auto attached = job.watchdog().attach(backend);
  std::atomic<bool> over = false;
  std::vector<HostEvidence> told;
  std::thread asks([&] {
    for (int i = 0; i < 30; ++i) told.push_back(decode_host(job.ask(kAskEvidence)));
    over = true;
  });
  const std::vector<Buffers> buffers(1);
  std::uint64_t made = 0;
  // Until all was asked, and no longer than until one ought to have asked.
  for (int step = 0; step < 1'000'000 && !over; ++step) {
    job.watchdog().begin_step(Phase::timed_loop, "a step", kCall, 10, 1);
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
    job.watchdog().begin_step(Phase::initialization, "opening");
  }
  asks.join();
}

TEST_CASE("a process that is told to leave leaves with 4, also where its work is over first", "[watchdog]") {
  Child child([] {
    const Alone job;
    return job.ask(kStop) == "leaving" ? 0 : 1;
  });
  CHECK(child.code() == static_cast<int>(ExitCode::timeout));
}

TEST_CASE("a process that is told to leave while its watchdog is destroyed leaves with 4, or had left", "[watchdog]") {
  for (int round = 0; round < 10; ++round) {
    Child child([] {
      auto job = std::make_unique<Alone>();
      std::thread tells([address = job->address()] { (void)Alone::ask_at(address, kStop); });
      job.reset();
      tells.join();
      return 0;
    });
    const int code = child.code();
    CAPTURE(round, code);
    CHECK((code == 0 || code == static_cast<int>(ExitCode::timeout)));
  }
}

TEST_CASE("who looks at stderr reads of a hang before any file is made of it", "[watchdog][slow]") {
  const TempDir folder;
  Child child([&]() -> int {
    if (chdir(folder.path().c_str()) != 0) return 1;
    Alone job(kBrief, [](const HangEvidence&, const HangFinding&) -> std::string {
      return write(STDERR_FILENO, "[a file is made]\n", 17) == 17 ? "{}" : "";
    });
    job.hang();
  });
  const std::string said = child.hear_all();
  CHECK(child.code() == static_cast<int>(ExitCode::timeout));
  CHECK(said.starts_with("busbar: "));
  const std::size_t where = said.find("busbar: all of it: ");
  CHECK(said.find("[a file") < where);
  CHECK(where != std::string::npos);
}

TEST_CASE("a hang is told and ended on a system that has no thread left", "[watchdog][slow]") {
  Child child([]() -> int {
    // Room for the two threads that a watchdog starts with, and no third stack.
    constexpr std::size_t kStack = 256U << 20;
    pthread_attr_t large;
    pthread_attr_init(&large);
    if (pthread_attr_setstacksize(&large, kStack) != 0 || pthread_setattr_default_np(&large) != 0) return 1;
    limit_memory(2 * kStack + kStack / 2);
    Alone job(kBrief);
    try {
      std::thread([] { pause(); }).detach();
      return 3;
    } catch (const std::system_error&) {
    }
    job.hang();
  });
  const std::string said = child.hear_all();
  CHECK(child.code() == static_cast<int>(ExitCode::timeout));
  CHECK(said.starts_with("busbar: "));
}

TEST_CASE("NCCL's RAS is asked where that cannot crash the job, else the report says why not",
          "[watchdog][ras][slow]") {
  struct Row {
    Phase hangs_in;
    const char* told;
  };
  // Port 1 takes no connection: who asks there finds that nobody listens.
  for (const Row& row : {Row{Phase::initialization, "not asked"}, Row{Phase::timed_loop, "no process listens"}}) {
    INFO(name(row.hangs_in));
    Child child([&row]() -> int {
      setenv("NCCL_RAS_ADDR", "127.0.0.1:1", 1);
      Alone job(kBrief);
      job.watchdog().use_ras(22703);
      job.watchdog().begin_step(row.hangs_in, "a step", kCall, 10, kBrief / 10);
      pause();
      return 3;
    });
    CHECK_THAT(child.hear_all(), Catch::Contains("RAS on here: ") && Catch::Contains(row.told));
    CHECK(child.code() == static_cast<int>(ExitCode::timeout));
  }
}

TEST_CASE("a job of which somebody debugs a rank is told once, and waited for while that lasts", "[watchdog][slow]") {
  std::array<int, 2> go{};
  REQUIRE(pipe(go.data()) == 0);
  Child child([&]() -> int {
    Alone job(kBrief);
    char byte = 0;
    if (read(go[0], &byte, 1) != 1) return 1;
    job.hang();
  });
  if (ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr) != 0) {
    WARN("no process may be traced here");
    return;
  }
  REQUIRE(write(go[1], "x", 1) == 1);
  CHECK_THAT(child.hear("\n"), Catch::Contains("is held by a debugger (pid " + std::to_string(getpid()) + ")"));
  // By its own record, which it takes away when it ends: time for several looks.
  constexpr double kLong = 25 * kBrief;
  const auto idle_s = [&] {
    const std::vector<FlightState> flights = read_flights(flight_folders(), Alone::name_of(child.pid()));
    return flights.empty() ? -1 : flights.front().idle_s;
  };
  double idle = 0;
  while (idle >= 0 && idle < kLong && !child.speaks()) idle = idle_s();
  CHECK(idle >= kLong);
  REQUIRE(ptrace(PTRACE_INTERRUPT, child.pid(), nullptr, nullptr) == 0);
  REQUIRE(waitpid(child.pid(), nullptr, 0) == child.pid());
  REQUIRE(ptrace(PTRACE_DETACH, child.pid(), nullptr, nullptr) == 0);
  const std::string said = child.hear_all();
  CHECK(child.code() == static_cast<int>(ExitCode::timeout));
  CHECK(times(said, "is held by a debugger") == 1);
  for (const int end : go) close(end);
}

TEST_CASE("a job that is ended from outside while it moves says one line and leaves no record", "[watchdog]") {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    std::array<int, 2> begun{};
    REQUIRE(pipe(begun.data()) == 0);
    Child child([&]() -> int {
      std::signal(number, SIG_DFL);
      if (number == SIGTERM) std::signal(SIGINT, SIG_IGN);  // as nohup does with others
      Alone job(60);
      if (write(begun[1], "x", 1) != 1) return 1;
      job.hang();
    });
    char byte = 0;
    REQUIRE(read(begun[0], &byte, 1) == 1);
    for (const int end : begun) close(end);
    const std::string job = Alone::name_of(child.pid());
    REQUIRE(read_flights(flight_folders(), job).size() == 1);
    if (number == SIGTERM) kill(child.pid(), SIGINT);
    kill(child.pid(), number);
    const std::string said = child.hear_all();
    CHECK(child.code() == -number);
    CHECK(said == interrupted_line(number, kNothingKept));
    CHECK(read_flights(flight_folders(), job).empty());
  }
}

TEST_CASE("who rests in the midst of the work leaves the last word to a lower rank, and its record for it",
          "[watchdog][slow]") {
  for (const bool is_over : {false, true}) {
    std::array<int, 2> begun{};
    REQUIRE(pipe(begun.data()) == 0);
    const std::string job = Alone::name_of(getpid());
    FlightRecord first({job, "here", 0, 2, "test"});
    first.end(Ending::signalled);
    Child child([&]() -> int {
      Watchdog watchdog(60, view_of(1, 2, 2), "test", nullptr);
      const PeerAddress own = watchdog.listen(1, true, kToken);
      PeerAddress other = own;
      other.rank = 0;
      other.port = 0;
      watchdog.connect(job, {other, own});
      watchdog.rest();
      if (is_over) watchdog.set_kept({});
      if (write(begun[1], "x", 1) != 1) return 1;
      pause();
      return 3;
    });
    char byte = 0;
    REQUIRE(read(begun[0], &byte, 1) == 1);
    for (const int end : begun) close(end);
    kill(child.pid(), SIGTERM);
    CHECK(child.hear_all().empty());
    CHECK(child.code() == -SIGTERM);
    std::vector<int> left;
    for (const FlightState& flight : read_flights(flight_folders(), job)) left.push_back(flight.rank);
    CHECK(left == (is_over ? std::vector<int>{} : std::vector{0, 1}));
    for (const std::filesystem::path& file : files_named(flight_folders(), flight_file_prefix(job, "here")))
      std::filesystem::remove(file);
  }
}

TEST_CASE("an observer may be told to look by one thread while another tells it too", "[watchdog][slow]") {
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
  Child child([] {
    limit_memory(3U << 20);
    try {  // those of threads that are over are used again
      for (int i = 0; i < 100000; ++i) std::thread([] { pause(); }).detach();
    } catch (const std::system_error&) {
    }
    Alone job;
    job.watchdog().begin_step(Phase::initialization, "a step");
    return job.address().ip.empty() && !job.watchdog().warning().empty() ? 0 : 1;
  });
  CHECK(child.code() == 0);
}

TEST_CASE("a wrong interface is a warning, and the watchers use another", "[watchdog]") {
  Child child([] {
    setenv("NCCL_SOCKET_IFNAME", "=no-such-interface", 1);
    Watchdog watchdog(0, view_of(0, 2, 1), "test", nullptr);
    (void)watchdog.listen(0, false, kToken);
    return watchdog.warning().find("NCCL_SOCKET_IFNAME=") == std::string::npos ? 1 : 0;
  });
  CHECK(child.code() == 0);
}

TEST_CASE("a card whose counters never answer does not stop the watcher's heart", "[watchdog]") {
  Child child([] {
    // A file that whoever opens it waits for; it is told to look, asked and destroyed meanwhile.
    FakeRoot root;
    root.file("proc/net/dev", "");
    if (mkfifo((root.path() / "proc/net/snmp").c_str(), 0600) != 0) return 1;
    JobView view;
    view.jobid = "no-such-job";
    view.host = "here";
    HostObserver observer(root.path());
    std::atomic<int> beats = 0;
    const PeerServer server({.handle = {},
                             .tick =
                                 [&] {
                                   observer.observe_early();
                                   observer.look_closely(view);
                                   ++beats;
                                 },
                             .period = std::chrono::milliseconds(1)});
    while (beats < 3) std::this_thread::yield();
    return observer.evidence(view).host == "here" ? 0 : 3;
  });
  CHECK(child.code() == 0);
}
