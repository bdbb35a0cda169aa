#include "common/watch/watchdog.h"

#include "common/base/error.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace busbar {

Watchdog::Watchdog(double timeout_s, int rank, std::string host)
    : timeout_s_(timeout_s), rank_(rank), host_(std::move(host)) {
  if (timeout_s_ > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::begin(std::string step) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    step_ = std::move(step);
    ++generation_;
  }
  changed_.notify_all();
}

void Watchdog::rest() { begin({}); }

void Watchdog::watch() {
  // Later ranks wait a little longer, so that one message is printed and not one per rank.
  const double patience_s = rank_ == 0 ? 0 : std::min(2 + 0.05 * rank_, 10.0);
  const std::chrono::duration<double> limit(timeout_s_ + patience_s);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const unsigned long seen = generation_;
    const auto moved = [&] { return stopping_ || generation_ != seen; };
    if (step_.empty()) {
      changed_.wait(lock, moved);
    } else if (!changed_.wait_for(lock, limit, moved)) {
      expire(step_);
    }
  }
}

void Watchdog::expire(const std::string& step) const {
  const std::string text = fmt::format(
      "busbar: error: rank {} on {}: {} did not finish within {:g} s (-T); the job ends with exit code {}\n", rank_,
      host_, step, timeout_s_, static_cast<int>(ExitCode::timeout));
  // write and _exit, not fputs and exit: the main thread may hold any lock.
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(static_cast<int>(ExitCode::timeout));
  _exit(static_cast<int>(ExitCode::timeout));
}

}  // namespace busbar
