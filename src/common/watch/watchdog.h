#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace busbar {

/// Ends the job when a step takes longer than -T allows: a thread of its own that never calls MPI or CUDA, because the
/// main thread may be stuck inside them. On expiry it prints one message with rank, host and step and leaves with exit
/// code 4; the launcher then ends the other ranks. Rank 0 speaks first, the others only if it does not.
class Watchdog {
 public:
  /// timeout_s <= 0: watches nothing and starts no thread.
  Watchdog(double timeout_s, int rank, std::string host);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// The step now under way, until the next call; each step has the whole time.
  void begin(std::string step);

  /// Nothing is under way that could hang.
  void rest();

 private:
  void watch();
  [[noreturn]] void expire(const std::string& step) const;

  double timeout_s_;
  int rank_;
  std::string host_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string step_;  ///< empty: at rest
  unsigned long generation_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace busbar
