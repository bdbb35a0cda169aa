// Would catch: RAS's text or JSON misread, the bug of 2.28.9's JSON, ranks called lagging after one look, the wrong
// side called lagging where few are ahead, a service that is silent, rude or no RAS holding the watchdog up.

#include "common/watch/ras.h"

#include "common/base/error.h"
#include "ras_answer_text.h"

#include <arpa/inet.h>
#include <catch2/catch.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace busbar;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

/// Two ranks of four one behind, as NCCL before 2.26 words it, and rank 3's process dead.
const std::string kText =
    ras_answer("2.25.1", "0         1         2         2         4         4   RUNNING  INCOMPLETE,MISMATCH") +
    R"(INCOMPLETE
  Missing communicator data from 1 job process
  Process 903 on node 10.0.0.2 managing GPU 1

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 3

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 903 on node 10.0.0.2 managing GPU 1

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different collective operation counts
  2 ranks have launched up to operation 6650
  Rank 1 has launched up to operation 6649 -- GPU 1 managed by process 901 on node 10.0.0.1

)";

/// Six ranks; rank 0 is ahead in AllReduce, and RAS lists the few.
const std::string kAhead = R"(NCCL version 2.30.4 compiled with CUDA 13.0

Communicators... (0.00s)
=============

Warnings
========

#0-0 (00000000000000aa) MISMATCH
  Communicator ranks have different AllReduce operation counts
  5 ranks have launched up to operation 10
  Rank 0 has launched up to operation 11 -- GPU 0 managed by process 500 on node 10.0.0.1
  Communicator ranks have different Broadcast operation counts
  5 ranks have launched up to operation 2
  Rank 4 has not launched any operations -- GPU 4 managed by process 504 on node 10.0.0.1
)";

std::string json_rank(int rank, int all_reduces, int error = 0) {
  return "{\"rank\": " + std::to_string(rank) + ", \"host\": \"10.0.0.1\", \"pid\": " + std::to_string(900 + rank) +
         ", \"cuda_dev\": 0, \"nvml_dev\": 0, \"status\": {\"init_state\": 0, \"async_error\": " +
         std::to_string(error) +
         ", \"finalize_called\": false, \"destroy_flag\": false, \"abort_flag\": false}, \"collective_counts\": "
         "{\"Broadcast\": 1, \"AllReduce\": " +
         std::to_string(all_reduces) + "}}";
}

/// As 2.28.9 writes it: no comma behind nvml_dev of a missing rank.
std::string json_report(const std::string& ranks, const std::string& missing) {
  return "{\n  \"nccl_version\": \"2.28.9\",\n  \"cuda_runtime_version\": 13000,\n  \"communicators_count\": 1,\n  "
         "\"communicators\": [\n    {\n      \"hash\": \"0x9abc\",\n      \"size\": 3,\n      \"ranks\": [\n" +
         ranks + "],\n \"missing_ranks\": [\n" + missing +
         "]\n    }\n  ],\n  \"ras\": {\n    \"collection_time_sec\": 0.001,\n    \"timeouts_count\": 1\n  }\n}\n";
}

const std::string kMissing =
    "        {\n          \"rank\": 2,\n          \"host\": \"10.0.0.2\",\n          \"pid\": 902,\n          "
    "\"cuda_dev\": "
    "0,\n          \"nvml_dev\": 0\n          \"status\": {\n            \"unresponsive\": true,\n            "
    "\"considered_dead\": true\n          }\n        }";

std::string joined(const RasEvidence& evidence) {
  std::string all;
  for (const std::string& line : evidence.lines) all += line + "\n";
  return all;
}

using Ranks = std::vector<int>;
using Pids = std::vector<std::int64_t>;

/// A service on a port of its own that talks to one client after the other as `serve` says.
class FakeRas {
 public:
  explicit FakeRas(std::function<void(int fd, int client)> serve) : serve_(std::move(serve)) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(fd_, 4) == 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    setenv("NCCL_RAS_ADDR", ("localhost:" + std::to_string(ntohs(address.sin_port))).c_str(), 1);
    thread_ = std::thread([this] {
      for (int client = 0;; ++client) {
        const int fd = accept(fd_, nullptr, nullptr);
        if (fd < 0 || over_) return;
        serve_(fd, client);
        close(fd);
      }
    });
  }
  ~FakeRas() {
    over_ = true;
    shutdown(fd_, SHUT_RDWR);  // wakes accept
    thread_.join();
    close(fd_);
    unsetenv("NCCL_RAS_ADDR");
  }

 private:
  std::function<void(int, int)> serve_;
  int fd_ = -1;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

void put(int fd, const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = send(fd, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return;
    at += static_cast<std::size_t>(n);
  }
}

/// The next line of the client, in lower case; empty at the end.
std::string get(int fd) {
  std::string line;
  char c = 0;
  while (recv(fd, &c, 1, 0) == 1 && c != '\n') line += static_cast<char>(std::tolower(c));
  return line;
}

/// What NCCL's own event loop does (ras/client_support.cc); `json`: from 2.28.7 on.
void serve_like_nccl(int fd, bool json, const std::string& report) {
  for (std::string line; !(line = get(fd)).empty();) {
    if (line.starts_with("client protocol ")) {
      put(fd, "SERVER PROTOCOL 2\n");
    } else if (line.starts_with("timeout ")) {
      put(fd, "OK\n");
    } else if (line == "set format json" && json) {
      put(fd, "OK\n");
    } else if (line == "verbose status") {
      put(fd, report);
      return;
    } else {
      put(fd, "ERROR: Unknown command\n");
    }
  }
}

std::string complaint(std::chrono::milliseconds limit) {
  try {
    return "answered: " + ask_ras(limit, RasFormat::json);
  } catch (const Error& e) {
    return e.what();
  }
}

/// Two kinds of communicators: three of 8 ranks, and one more.
std::string table_answer(std::string_view errors, std::string_view last_row, std::string_view behind = "") {
  return "Communicators... (0.01s)\n=============\n\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status "
         " "
         "Errors\n    #  in group  per comm  per node  per comm  in group\n    0         3         2         4         "
         "8  "
         "       8   RUNNING  " +
         std::string(errors) + "\n" + std::string(last_row) + "\nErrors\n======\n\n" + std::string(behind) +
         "Warnings\n========\n\n";
}

}  // namespace

TEST_CASE("RAS's text tells dead processes, missing and lagging ranks", "[watch][ras]") {
  const RasEvidence once = read_ras(kText, "");
  CHECK(once.answered);
  CHECK(once.dead_pids == Pids{903});
  CHECK(once.lagging_ranks.empty());
  CHECK_THAT(joined(once), Contains("process 903 on 10.0.0.2 (GPU 1) is dead"));
  CHECK_THAT(joined(once), Contains("communicator cf264af53edbe986: rank 3 missing"));
  CHECK_THAT(joined(once),
             Contains("rank 1 launched operation 6649, ranks 0,2 launched operation 6650; one answer only"));
  CHECK_THAT(joined(once), Contains("2 timeouts inside RAS"));
  CHECK(read_ras(kText, kText).lagging_ranks == Ranks{1});
  CHECK(read_ras(kText, kText).lagging_pids == Pids{901});
}

TEST_CASE("counts that moved between two answers blame nobody", "[watch][ras]") {
  std::string later = kText;
  later.replace(later.find("6650"), 4, "6652");
  const RasEvidence moving = read_ras(later, kText);
  CHECK(moving.lagging_ranks.empty());
  CHECK_THAT(joined(moving), Contains("so it moves"));
}

TEST_CASE("where few are ahead the many lag, and are known without being listed", "[watch][ras]") {
  const RasEvidence evidence = read_ras(kAhead, kAhead);
  CHECK(evidence.lagging_ranks == Ranks{1, 2, 3, 4, 5});
  CHECK_THAT(joined(evidence), Contains("ranks 1-5 launched AllReduce 10, rank 0 launched AllReduce 11"));
  CHECK_THAT(joined(evidence), Contains("rank 4 launched Broadcast 0"));
}

TEST_CASE("RAS's JSON tells the same, even where 2.28.9 forgets a comma", "[watch][ras]") {
  const std::string first = json_report(json_rank(0, 7) + ",\n" + json_rank(1, 6, 6), kMissing);
  const RasEvidence evidence = read_ras(first, first);
  CHECK(evidence.answered);
  CHECK(evidence.dead_pids == Pids{902});
  CHECK(evidence.lagging_ranks == Ranks{1});
  CHECK(evidence.lagging_pids == Pids{901});
  CHECK_THAT(joined(evidence), Contains("communicator 0x9abc: rank 2 missing"));
  CHECK_THAT(joined(evidence), Contains("rank 1 launched AllReduce 6, rank 0 launched AllReduce 7; the same in both"));
  CHECK_THAT(joined(evidence), Contains("rank 1 on 10.0.0.1 (pid 901) reports asynchronous error 6"));
  CHECK_THAT(joined(evidence), Contains("no rank launched anything between the two answers"));

  const RasEvidence moved = read_ras(json_report(json_rank(0, 9) + "," + json_rank(1, 9), ""), first);
  CHECK(moved.lagging_ranks.empty());
  CHECK(moved.dead_pids.empty());
  CHECK_THAT(joined(moved), Contains("5 operations launched between"));
}

TEST_CASE("a job without trouble is said to have none", "[watch][ras]") {
  const RasEvidence good = read_ras(json_report(json_rank(0, 1), ""), "");
  CHECK(good.dead_pids.empty());
  CHECK_THAT(joined(good), Contains("1 timeout inside RAS"));
  CHECK_THAT(joined(read_ras("NCCL version 2.24.3 compiled with CUDA 12.4\nJob summary\n", "")),
             Contains("NCCL 2.24.3: 0 communicators, no rank missing"));
}

TEST_CASE("communicators are counted from RAS's table, and its own complaints are doubts", "[watch][ras]") {
  const std::string one = "    1         1         1         2         2         2   RUNNING      OK\n";
  const RasEvidence good = read_ras(table_answer("OK", one), "");
  CHECK_THAT(joined(good), Contains("4 communicators, no rank missing"));
  CHECK(good.doubts.empty());
  CHECK(good.well);
  for (const char* errors : {"MISMATCH", "INCOMPLETE", "ERROR", "INCOMPLETE,ERROR,MISMATCH"}) {
    const RasEvidence bad = read_ras(table_answer(errors, one), "");
    REQUIRE(bad.doubts.size() == 1);
    CHECK_THAT(bad.doubts[0], Contains(errors) && Contains("3 communicators of 8 ranks"));
    CHECK_FALSE(bad.well);
  }
  // Ranks that still initialise are neither well nor in trouble.
  const RasEvidence young = read_ras(table_answer("OK", "    1   1   1   2   2   2      INIT      OK\n"), "");
  CHECK(young.doubts.empty());
  CHECK_FALSE(young.well);
  CHECK_FALSE(read_ras("Job summary\n===========\n", "").well);
  CHECK(read_ras(table_answer("OK", "    1   1   1   2   2   2     ABORT      OK\n"), "").doubts.size() == 1);
  // JSON has no such column, but ranks.
  CHECK(read_ras(json_report(json_rank(0, 4) + "," + json_rank(1, 4), ""), "").well);
  CHECK(read_ras(json_report(json_rank(0, 4) + "," + json_rank(1, 5), ""), "").doubts.size() == 1);
  CHECK(read_ras(json_report(json_rank(0, 4, 3), ""), "").doubts.size() == 1);
}

TEST_CASE("ranks that cannot be are named by nobody", "[watch][ras]") {
  const std::string odd = "    1         1         0         0       255         0     ABORT  INCOMPLETE\n";
  const std::string beyond =
      "#0-0 (00000000000000ab) INCOMPLETE\n  Missing communicator data from 2 ranks\n  The missing ranks: 5,31\n\n";
  const std::string nowhere =
      "#1-0 (00000000000000cd) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 77\n\n";
  for (const std::string& behind : {beyond, nowhere}) {
    const RasEvidence told = read_ras(table_answer("INCOMPLETE", odd, behind), "");
    CHECK(told.missing_ranks.empty());
    CHECK_FALSE(told.doubts.empty());
    CHECK_THAT(joined(told), !Contains("31") && !Contains("77"));
  }
  const std::string sound =
      "#0-1 (00000000000000ef) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 6\n\n";
  CHECK(read_ras(table_answer("INCOMPLETE", odd, sound + nowhere), "").missing_ranks == Ranks{6});
  CHECK(read_ras(json_report("", "{\"rank\": 9, \"pid\": 0}"), "").missing_ranks.empty());
}

TEST_CASE("what others print in between is not RAS's", "[watch][ras]") {
  const RasEvidence told = read_ras(
      "#0-0 (00000000000000ab) MISMATCH\n  Communicator ranks have different status\nRuntimeError: CUDA error: out of "
      "memory\n",
      "");
  CHECK_THAT(joined(told), !Contains("CUDA"));
}

TEST_CASE("the monitor's peers are dead, in trouble, or well again", "[watch][ras]") {
  const std::string peer = "Process 31 on node 10.1.1.3 managing GPU 0";
  const std::string stuck = "[2026-01-02 03:04:05] PEER_UNRESPONSIVE: " + peer + " no data for 20 s\n";
  CHECK(read_ras("[2026-01-02 03:04:05] PEER_DEAD: " + peer + " \n", "").dead_pids == Pids{31});
  CHECK_FALSE(read_ras("[2026-01-02 03:04:05] PEER_DEAD: 10.1.1.3<41001> \n", "").doubts.empty());
  CHECK_FALSE(read_ras(stuck, "").doubts.empty());
  CHECK(read_ras(stuck + "[2026-01-02 03:04:09] PEER_RECOVERED: " + peer + " peer responding again\n", "")
            .doubts.empty());
  const RasEvidence fresh = read_ras("[2026-01-02 03:04:05] PEER_NEW: " + peer + " \n", "");
  CHECK(fresh.answered);
  CHECK(fresh.doubts.empty());
  CHECK_FALSE(fresh.well);
  CHECK_FALSE(read_ras("PEER_DEAD: by the way\n", "").answered);
  CHECK_FALSE(
      read_ras("{\n\"event\": \"PEER_DEAD\",\n\"peer\": {\"addr\": \"10.1.1.3<41001>\"}\n}\n", "").doubts.empty());
}

TEST_CASE("what is not RAS's is said not to be", "[watch][ras]") {
  CHECK(read_ras("", "").why_not == "no answer");
  for (const char* text : {"HTTP/1.1 400 Bad Request\r\n\r\n", "{", "{\"a\": [1, {\"b\"", "[[[[[[[[[[[[[[[[[[[[[[[[",
                           "\1", "{\"communicators\": 3}"}) {
    INFO(text);
    CHECK_FALSE(read_ras(text, text).answered);
    CHECK(read_ras(text, "").why_not == "an answer that is not RAS's");
  }
}

TEST_CASE("damaged answers are read or refused, and end", "[watch][ras][slow]") {
  const std::string json = json_report(json_rank(0, 7) + ",\n" + json_rank(1, 6, 6), kMissing);
  std::mt19937_64 random(11);
  for (int i = 0; i < 5000; ++i) {
    for (std::string text : {kText, kAhead, json}) {
      text.resize(random() % (text.size() + 1));
      for (int k = 0; k < 4 && !text.empty(); ++k) text[random() % text.size()] = "{}[]\":,0-9\n\xff"[random() % 12];
      for (const std::string& line : read_ras(text, kText).lines) {
        CHECK(std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }));
      }
    }
  }
}

TEST_CASE("RAS is asked in the format that is safe for its version", "[watch][ras]") {
  {
    const FakeRas ras([](int fd, int) { serve_like_nccl(fd, true, "{\"json\"}\n"); });
    CHECK(ask_ras(5s, RasFormat::json) == "{\"json\"}\n");
  }
  const FakeRas ras([](int fd, int) { serve_like_nccl(fd, false, kText); });
  CHECK(ask_ras(5s, RasFormat::text) == kText);
}

TEST_CASE("a service without JSON, older than believed, is not asked for its text", "[watch][ras]") {
  std::vector<std::string> commands;
  {
    const FakeRas ras([&](int fd, int) {
      for (std::string line; !(line = get(fd)).empty();) {
        commands.push_back(line);
        put(fd, line.starts_with("client protocol ") ? "SERVER PROTOCOL 2\n"
                : line.starts_with("timeout ")       ? "OK\n"
                                                     : "ERROR: Unknown command\n");
      }
    });
    CHECK_THAT(complaint(5s), Contains("not asked"));
  }
  CHECK(commands.size() == 3);
  for (const std::string& command : commands) CHECK_THAT(command, !Contains("status") && !Contains("control"));
}

TEST_CASE("RAS may be asked early by one thread while another asks again", "[watch][ras]") {
  const FakeRas ras([](int fd, int) { serve_like_nccl(fd, true, json_report(json_rank(0, 1), "")); });
  for (int round = 0; round < 10; ++round) {
    RasObserver observer;
    std::thread early([&] { observer.observe_early(RasFormat::json); });
    const RasEvidence evidence = observer.look_again(RasFormat::json);
    early.join();
    CHECK(evidence.answered);
    CHECK(evidence.why_not.empty());
  }
}

TEST_CASE("an answer that is not RAS's is not taken for one of it", "[watch][ras]") {
  const FakeRas ras([](int fd, int) { serve_like_nccl(fd, false, "nothing of RAS\n"); });
  const RasEvidence evidence = RasObserver().look_again(RasFormat::text);
  CHECK_FALSE(evidence.answered);
  CHECK(evidence.why_not == "an answer that is not RAS's");
}

TEST_CASE("where a stopped process holds the connection, another one is asked", "[watch][ras][slow]") {
  const FakeRas ras([](int fd, int client) {
    if (client > 0) return serve_like_nccl(fd, true, "{\"json\"}\n");
    get(fd);
    get(fd);  // until the client goes
  });
  CHECK(ask_ras(30s, RasFormat::json) == "{\"json\"}\n");
}

TEST_CASE("RAS is told to be done in time, although it may take 5 s more", "[watch][ras]") {
  std::vector<std::string> timeouts;
  {
    const FakeRas ras([&](int fd, int) {
      get(fd);
      put(fd, "SERVER PROTOCOL 2\n");
      timeouts.push_back(get(fd));
    });
    CHECK_THAT(complaint(9s), Contains("closed the connection"));
  }
  REQUIRE(timeouts.size() == 1);
  for (const std::string& told : timeouts) {
    REQUIRE(told.starts_with("timeout "));
    CHECK(std::stoi(told.substr(8)) <= 9 - 5);
  }
}

TEST_CASE("a service that does not answer is left in time", "[watch][ras]") {
  SECTION("silent") {
    std::atomic<bool> asked = false;
    const FakeRas ras([&](int fd, int) {
      get(fd);
      asked = true;
      get(fd);  // until the client goes
    });
    CHECK_THAT(complaint(200ms), Contains("no answer in time"));
    CHECK(asked);
  }
  SECTION("another program") {
    const FakeRas ras([](int fd, int) { put(fd, "SSH-2.0-OpenSSH_9.2\r\n"); });
    CHECK_THAT(complaint(5s), Contains("not RAS"));
  }
  SECTION("nobody") {
    {
      const FakeRas ras([](int, int) {});
      REQUIRE(std::getenv("NCCL_RAS_ADDR") != nullptr);
      setenv("BUSBAR_TEST_ADDR", std::getenv("NCCL_RAS_ADDR"), 1);
    }
    setenv("NCCL_RAS_ADDR", std::getenv("BUSBAR_TEST_ADDR"), 1);
    CHECK_THAT(complaint(5s), Contains("no process listens"));
    unsetenv("NCCL_RAS_ADDR");
    unsetenv("BUSBAR_TEST_ADDR");
  }
  SECTION("no such address") {
    setenv("NCCL_RAS_ADDR", "no.such.host.invalid:1", 1);
    CHECK_THAT(complaint(200ms), Contains("cannot be found"));  // a resolver may take longer than that
    unsetenv("NCCL_RAS_ADDR");
  }
}
