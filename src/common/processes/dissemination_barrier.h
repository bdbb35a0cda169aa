#pragma once

#include "common/processes/comm.h"

#include <memory>

namespace busbar {

/// A barrier of our own on host memory, so that the library under test does not choose it: in each of ceil(log2 p)
/// rounds, with steps of 1, 2, 4, ..., process r sends an empty message to r + step and waits for the one from
/// r - step, modulo p (Hensgen, Finkel & Manber: Two Algorithms for Barrier Synchronization, 1988). Nobody leaves
/// before all have entered.
class DisseminationBarrier {
 public:
  /// Collective over `comm`.
  explicit DisseminationBarrier(const Comm& comm);
  DisseminationBarrier(const DisseminationBarrier&) = delete;
  DisseminationBarrier& operator=(const DisseminationBarrier&) = delete;
  /// Where `comm` has more than one process MPI must still run, and all processes must come here.
  ~DisseminationBarrier();

  /// Collective over `comm`. Waits inside MPI, so it gives up the core where MPI does. Failures of MPI end the job.
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace busbar
