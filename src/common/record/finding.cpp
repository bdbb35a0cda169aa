#include "common/record/finding.h"

namespace busbar {

ExitCode exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return ExitCode::good;
    case Verdict::hw_fault:
    case Verdict::host_unreachable:
    case Verdict::process_dead:
    case Verdict::resource:
    case Verdict::config:
      return ExitCode::backend;
    case Verdict::process_stopped:
    case Verdict::init_not_joined:
    case Verdict::init_stuck:
    case Verdict::arg_mismatch:
    case Verdict::order_mismatch:
    case Verdict::rank_lagging:
    case Verdict::stuck_inside:
      return ExitCode::timeout;
    case Verdict::slow_not_hung:
      return ExitCode::wrong_data;
    case Verdict::unknown:
      return ExitCode::invalid_use;
  }
  return ExitCode::invalid_use;
}

ExitCode exit_code(Outcome outcome, bool strict) {
  switch (outcome) {
    case Outcome::pass:
      return ExitCode::good;
    case Outcome::warn:
      return strict ? ExitCode::wrong_data : ExitCode::good;
    case Outcome::fail:
      return ExitCode::wrong_data;
    case Outcome::skip:
    case Outcome::inconclusive:
      return ExitCode::inconclusive;
  }
  return ExitCode::internal;
}

}  // namespace busbar
