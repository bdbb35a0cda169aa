// Would catch: a reader of /proc that waits in the kernel, or dies, and takes the whole look with it.

#include "look/apart.h"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>

using namespace busbar;

TEST_CASE("An item that never ends is given up, and the others are done", "[apart]") {
  const auto begin = std::chrono::steady_clock::now();
  const auto results = run_apart(5, {1, 20, 2}, [](std::size_t i) -> std::string {
    if (i == 1) {
      signal(SIGTERM, SIG_IGN);
      for (int k = 0; k < 600; ++k) usleep(100000);
    }
    if (i == 2) throw std::runtime_error("no such file");
    if (i == 3) raise(SIGKILL);
    return std::string(200000, static_cast<char>('a' + i));
  });
  CHECK(results[0].value == std::string(200000, 'a'));
  CHECK(results[1].value == std::nullopt);
  CHECK(results[1].timed_out);
  CHECK(results[2].why == "no such file");
  CHECK_FALSE(results[2].timed_out);
  CHECK(results[3].why == "it was killed");
  CHECK(results[4].value == std::string(200000, 'e'));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(15));
}

TEST_CASE("All items together have a limit, too", "[apart]") {
  const auto begin = std::chrono::steady_clock::now();
  const auto results = run_apart(100, {0.2, 0.5, 1}, [](std::size_t) -> std::string {
    for (int k = 0; k < 600; ++k) usleep(100000);
    return "";
  });
  CHECK(results.back().timed_out);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

TEST_CASE("Items run side by side, each with its own limit", "[apart]") {
  const auto begin = std::chrono::steady_clock::now();
  const auto results = run_apart(40, {5, 30, 40}, [](std::size_t i) -> std::string {
    if (i == 7) {
      for (int k = 0; k < 600; ++k) usleep(100000);
    }
    usleep(500000);
    return std::to_string(i);
  });
  for (std::size_t i = 0; i < results.size(); ++i) {
    CHECK(results[i].timed_out == (i == 7));
    if (i != 7) CHECK(results[i].value == std::to_string(i));
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(15));  // 20 s one after the other
}

TEST_CASE("Records come back from processes of their own", "[apart]") {
  const auto results = records_apart(2, {5, 20}, [](std::size_t i) {
    if (i == 1) throw std::runtime_error("denied");
    return std::vector<std::string>{"a", "b"};
  });
  CHECK(results[0].value == std::vector<std::string>{"a", "b"});
  CHECK(results[1].why == "denied");
}

TEST_CASE("A child that is killed while it writes gives nothing, and holds no file of ours", "[apart]") {
  const int held = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const auto results = records_apart(2, {5, 20}, [&](std::size_t i) -> std::string {
    if (i == 0) return fcntl(held, F_GETFD) < 0 ? "closed" : "open";  // one that never ends would keep it
    for (int fd = 3; fd < 1024; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0 && write(fd, "+abc", 4) < 4) break;  // only the pipe for its result is left
    }
    raise(SIGKILL);
    return {};
  });
  close(held);
  CHECK(results[0].value == "closed");
  CHECK(results[1].value == std::nullopt);
  CHECK(results[1].why == "it was killed");
}
