#pragma once

#include "common/watch/hang_evidence.h"

#include <chrono>
#include <cstdint>
#include <future>
#include <mutex>
#include <string>
#include <string_view>

namespace busbar {

/// What RAS is asked for: JSON where NCCL has it, else text.
enum class RasFormat : std::uint8_t { none, text, json };

/// What makes it dangerous to ask. True unless it is known to be false.
struct RasHazards {
  bool initializing = true;  ///< a rank may be creating a communicator
  bool missing = true;       ///< a rank may be dead, stopped or out of reach
};

/// The hazards that this evidence does not exclude.
RasHazards ras_hazards(const HangEvidence& evidence);

struct RasQuestion {
  RasFormat format = RasFormat::none;
  std::string why_not;  ///< where it is none
};

/// How NCCL's RAS service can be asked without crashing the job. `nccl_version`: as ncclGetVersion tells it, 0 where it
/// is not known; then RAS is not asked. The commands that follow are `STATUS` and `VERBOSE STATUS` alone, which only
/// read: never CONTROL, which changes the job. From the sources of NCCL 2.24.3 to 2.30.7 (src/ras): a communicator that
/// is being created is read before its data are there up to 2.26.6 (NVIDIA/nccl#1669) and leaves an empty record that
/// the text dies of later (#2346); a missing rank makes the text of 2.26.2 to 2.28.9 step to a wrong address (#1762);
/// JSON, which came with 2.28.7, does neither.
RasQuestion safe_ras_question(int nccl_version, const RasHazards& hazards);

/// The same rule for people: the command that asks RAS while a job hangs and what its answer tells, or why not to ask.
std::string ras_advice(int nccl_version);

/// Asks NCCL's RAS service on this host (NCCL_RAS_ADDR, else localhost:28028) for its status in the format that
/// safe_ras_question allows. The text as it came; throws Error where nobody answers within `limit`, and where JSON was
/// asked of a service that knows none: it is older than the caller believes, and its text may crash the job.
std::string ask_ras(std::chrono::milliseconds limit, RasFormat format);

/// What RAS's text or JSON says; `earlier` is an answer from some seconds before, or empty: counters that differ prove
/// nothing unless both answers agree. Never throws, whatever the text.
RasEvidence read_ras(std::string_view text, std::string_view earlier);

/// Asks NCCL's RAS service twice, so that what has moved in between is known: at half a step's limit, in a thread of
/// its own, and when the limit is over.
class RasObserver {
 public:
  /// Begins to ask. Any thread; blocks only while an earlier question is under way, 3 s at most.
  void look_early(RasFormat format);

  /// What it says now, held against the early answer if there is one, or why it says nothing. Any thread; blocks for
  /// 11 s at most.
  RasEvidence look_again(RasFormat format);

 private:
  std::mutex mutex_;                         ///< over what follows
  std::shared_future<std::string> earlier_;  ///< whose end waits for its thread
};

}  // namespace busbar
