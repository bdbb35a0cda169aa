#include "common/watch/verdict.h"

namespace busbar {

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::hw_fault:
      return "HW_FAULT";
    case Verdict::host_unreachable:
      return "HOST_UNREACHABLE";
    case Verdict::process_dead:
      return "PROCESS_DEAD";
    case Verdict::process_stopped:
      return "PROCESS_STOPPED";
    case Verdict::resource:
      return "RESOURCE";
    case Verdict::config:
      return "CONFIG";
    case Verdict::init_not_joined:
      return "INIT_NOT_JOINED";
    case Verdict::init_stuck:
      return "INIT_STUCK";
    case Verdict::arg_mismatch:
      return "ARG_MISMATCH";
    case Verdict::order_mismatch:
      return "ORDER_MISMATCH";
    case Verdict::slow_not_hung:
      return "SLOW_NOT_HUNG";
    case Verdict::rank_lagging:
      return "RANK_LAGGING";
    case Verdict::stuck_inside:
      return "STUCK_INSIDE";
    case Verdict::unknown:
      return "UNKNOWN";
    case Verdict::ok:
      return "OK";
  }
  return "UNKNOWN";
}

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

}  // namespace busbar
