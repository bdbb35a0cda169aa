#pragma once

namespace busbar {

/// `--hang-timeout` was not given.
inline constexpr double kAutomaticLimit = -1;

/// How long MPI's and NCCL's start, allocation and end may take without any progress [s]: max(120, 30 + 0.1 per
/// process); where a limit was asked for, that, but no less than 30: who wants hangs of operations found within seconds
/// does not mean that a job of thousands must start within them.
double start_limit_s(int nprocs, double asked_s = kAutomaticLimit);

/// How long a step may take that should take `expected_s` [s]: max(30, 20 times that).
double step_limit_s(double expected_s);

/// A step that still moves is ended only after this time [s]: ten times its limit, and twice the time that the whole
/// step would take at its pace so far. `done` of `total` operations are done; total 0: not known.
double slow_limit_s(double limit_s, double step_age_s, double done, double total);

/// Expected times of operations, scaled from the last size that was measured, or assumed where none was.
class ExpectedTime {
 public:
  /// `assumed_busbw`: [B/s], for the first one.
  explicit ExpectedTime(double assumed_busbw) : seconds_per_byte_(1 / assumed_busbw) {}

  /// Of one operation of so many bytes [s].
  double operation_s(double nbytes) const;
  void measured(double nbytes, double time_s);

 private:
  double seconds_per_byte_;
  double floor_s_ = 1e-3;
};

}  // namespace busbar
