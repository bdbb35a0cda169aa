#pragma once

#include "common/base/enum_words.h"
#include "common/base/error.h"
#include "common/base/outcome.h"
#include "common/base/packed_fields.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// What is wrong with a job that makes no progress, in the order of the search: the first that holds is the verdict, so
/// that a secondary symptom (a rank that waits for a dead one) never is. `ok` is outside the order.
enum class Verdict : std::uint8_t {
  hw_fault,          ///< a GPU, link or port reports an error or is down
  host_unreachable,  ///< all ranks of a host are silent, or two hosts cannot reach each other
  process_dead,      ///< a rank's process is gone
  process_stopped,   ///< a rank's process is stopped, or frozen while its neighbors are alive
  resource,          ///< /dev/shm, memory, locked memory, file descriptors
  config,            ///< a wrong or unequal setting, version, interface or device
  init_not_joined,   ///< some ranks never began to initialize
  init_stuck,        ///< all began, some or none finished
  arg_mismatch,      ///< ranks called with different arguments
  order_mismatch,    ///< ranks called in different orders
  slow_not_hung,     ///< something still moves
  rank_lagging,      ///< some ranks never entered the operation that the others wait in
  stuck_inside,      ///< all entered it, none came out
  unknown,           ///< the evidence does not show it
  ok,
};

/// The spelling in reports and JSON: part of their formats.
constexpr EnumWords<15> words_of(Verdict) {
  return {"HW_FAULT",      "HOST_UNREACHABLE", "PROCESS_DEAD", "PROCESS_STOPPED", "RESOURCE",
          "CONFIG",        "INIT_NOT_JOINED",  "INIT_STUCK",   "ARG_MISMATCH",    "ORDER_MISMATCH",
          "SLOW_NOT_HUNG", "RANK_LAGGING",     "STUCK_INSIDE", "UNKNOWN",         "OK"};
}
static_assert(name(Verdict::ok) == "OK");

/// The exit code of `busbar diagnose`: 0 ok; 3 hardware, hosts, processes, resources, settings; 4 hangs; 7 slow; 6
/// unknown.
constexpr ExitCode exit_code(Verdict verdict) {
  using enum ExitCode;
  // In the order of the enumerators.
  constexpr std::array<ExitCode, words_of(Verdict{}).size()> kCodes{backend,    backend, backend, timeout,     backend,
                                                                    backend,    timeout, timeout, timeout,     timeout,
                                                                    wrong_data, timeout, timeout, invalid_use, good};
  return kCodes[static_cast<std::size_t>(verdict)];
}
static_assert(exit_code(Verdict::slow_not_hung) == ExitCode::wrong_data && exit_code(Verdict::ok) == ExitCode::good);

/// The exit code of accept and locate: 0, 7 or 8; a warning is 7 if `strict`.
constexpr ExitCode exit_code(Outcome outcome, bool strict = false) {
  if (outcome == Outcome::fail || (outcome == Outcome::warn && strict)) return ExitCode::wrong_data;
  return outcome == Outcome::pass || outcome == Outcome::warn ? ExitCode::good : ExitCode::inconclusive;
}

/// What the evidence shows about a failed or hung job: the watchdog's for its own job, a log's for any job.
struct Finding {
  Verdict verdict = Verdict::unknown;
  std::string
      sentence;  ///< "rank 13 on node3 (pid 4242) is stopped (state T); 15 ranks wait for it in all_reduce #412"
  std::vector<int> ranks;             ///< to blame
  std::vector<std::string> hosts;     ///< to blame
  std::vector<std::string> evidence;  ///< lines
  std::vector<std::string> missing;   ///< evidence that did not arrive and would help
  std::vector<std::string> next;      ///< commands to try
  std::vector<std::string> devices;   ///< to blame, in logs
  std::vector<std::string> rules;     ///< ids of the deciding rules in configs/rules, in logs
};

BUSBAR_RECORD(Finding, verdict, sentence, ranks, hosts, evidence, missing, next, devices, rules);

}  // namespace busbar
