#include "look/apart.h"

#include "common/base/error.h"
#include "common/base/say.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <memory>

namespace busbar {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point time_in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

[[noreturn]] void do_item(int out, std::size_t item, const WorkApart& work) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A child that stays in the kernel must hold nothing of ours: the pipes that our reader waits on, our turn on the
  // host.
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, fd);
  constexpr int kMostFiles = 1024;
  for (int fd = 3; fd < kMostFiles; ++fd)
    if (fd != out) close(fd);
  Apart<std::string> result;
  try {
    result.value = work(item);
  } catch (const std::exception& error) {
    result.why = error.what();
  }
  _exit(write_all(out, pack_fields(std::move(result))) ? 0 : 1);
}

/// A child at work; killed with all that it started when this ends.
class Worker {
 public:
  Worker(std::size_t the_item, double limit_s, const WorkApart& work) : item(the_item), end_(time_in(limit_s)) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw_not_possible(fmt::format("no pipe: {}", std::strerror(errno)));
    in_ = ends[0];
    pid_ = fork();
    if (pid_ == 0) do_item(ends[1], item, work);
    close(ends[1]);
    if (pid_ > 0) setpgid(pid_, pid_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    close(in_);
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    for (int i = 0; i < 20 && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) poll(nullptr, 0, 5);
  }

  int fd() const { return in_; }

  /// Its result once it has ended or is late; reads what is there.
  std::optional<Apart<std::string>> result(bool readable) {
    char buffer[1 << 16];
    const ssize_t got = readable ? read(in_, buffer, sizeof buffer) : 1;
    if (readable && got > 0) bytes_.append(buffer, static_cast<std::size_t>(got));
    if (got == 0) return ended();
    if (Clock::now() >= end_) return Apart<std::string>{std::nullopt, "it did not end in time", true};
    return std::nullopt;
  }

  const std::size_t item;

 private:
  /// What it wrote before its end, if that is whole: a child may also be killed while it writes.
  Apart<std::string> ended() const {
    try {
      return unpack_fields<Apart<std::string>>(bytes_);
    } catch (const Error&) {
      return {std::nullopt, pid_ > 0 ? "it was killed" : "no process could be started for it", false};
    }
  }

  Clock::time_point end_;
  pid_t pid_ = -1;
  int in_ = -1;
  std::string bytes_;
};

}  // namespace

std::vector<Apart<std::string>> run_apart(std::size_t items, const ApartLimits& limits, const WorkApart& work) {
  std::vector<Apart<std::string>> results(items, {std::nullopt, "there was no time left for it", true});
  std::vector<std::unique_ptr<Worker>> workers;
  const Clock::time_point last = time_in(limits.all_s);
  for (std::size_t next = 0; next < items || !workers.empty();) {
    if (Clock::now() >= last) next = items;
    while (next < items && workers.size() < limits.at_once)
      workers.push_back(std::make_unique<Worker>(next++, limits.each_s, work));
    std::vector<pollfd> ready;
    for (const auto& worker : workers) ready.push_back({worker->fd(), POLLIN, 0});
    poll(ready.data(), ready.size(), 50);
    for (std::size_t i = workers.size(); i-- > 0;) {
      auto result = workers[i]->result(ready[i].revents != 0);
      if (!result) continue;
      results[workers[i]->item] = std::move(*result);
      workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return results;
}

}  // namespace busbar
