#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace busbar {

/// How long two fixed pieces of work took: when they change, the machine changed, not what is measured on it.
struct CanaryTimes {
  double spin_s = 0;
  double copy_s = 0;
  std::uint64_t spun = 0;  ///< what the spinning computed: always the same, or it was other work
};

/// A fixed number of dependent integer operations (about 0.3 ms on a core of 2026, the same number on every machine and
/// in every launch, so that launches and hosts can be compared by it), and a copy of min(8 MiB, 2 x L2). Times are
/// the thread's CPU time: that others had the core is foreign_cpu's to tell, and that our own ranks share it is no
/// change of the machine.
class Canary {
 public:
  Canary();

  /// About a millisecond; never between timed operations. Nothing is communicated.
  CanaryTimes run();

  std::size_t copy_bytes() const { return from_.size(); }

  /// Whether the latest run has copied all of it.
  bool copied() const { return to_ == from_; }

 private:
  void copy();

  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

}  // namespace busbar
