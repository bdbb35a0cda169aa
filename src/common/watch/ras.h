#pragma once

#include "common/evidence/hang_evidence.h"

#include <chrono>
#include <cstdint>
#include <future>
#include <mutex>
#include <string>
#include <string_view>

namespace busbar {

/// The format to ask RAS for: JSON if NCCL has it, else text.
enum class RasFormat : std::uint8_t { none, text, json };

/// What makes the question dangerous. True unless known to be false.
struct RasHazards {
  bool initializing = true;  ///< a rank may be creating a communicator
  bool missing = true;       ///< a rank may be dead, stopped or out of reach
};

/// The hazards that this evidence does not exclude.
RasHazards ras_hazards(const HangEvidence& evidence);

struct RasQuestion {
  RasFormat format = RasFormat::none;
  std::string why_not;  ///< if there is none
};

/// How to ask NCCL's RAS service without crashing the job. `nccl_version`: as ncclGetVersion counts; 0 if not known,
/// then RAS is not asked. The only commands that follow are `STATUS` and `VERBOSE STATUS`, which only read; never
/// CONTROL, which changes the job. From the sources of NCCL 2.24.3 to 2.30.7 (src/ras): up to 2.26.6 RAS reads a
/// communicator that is being created before its data are there (NVIDIA/nccl#1669), and leaves an empty record that
/// crashes the text later (#2346). A missing rank makes the text of 2.26.2 to 2.28.9 use a wrong address (#1762). JSON,
/// which came with 2.28.7, does neither.
RasQuestion safe_ras_question(int nccl_version, const RasHazards& hazards);

/// The same rule for people: the command that asks RAS while a job hangs and what its answer means, or why not to ask.
std::string ras_advice(int nccl_version);

/// Asks NCCL's RAS service on this host (NCCL_RAS_ADDR, else localhost:28028) for its status, in the format that
/// safe_ras_question allows. Returns the text as it came. Throws Error if no answer comes within `limit`, or if JSON
/// was requested and the service has none: it is older than the caller believes, and its text may crash the job.
std::string ask_ras(std::chrono::milliseconds limit, RasFormat format);

/// Reads RAS's text or JSON. `earlier` is an answer from some seconds before, or empty: different counters prove
/// nothing unless both answers agree. Never throws, whatever the text.
RasEvidence read_ras(std::string_view text, std::string_view earlier);

/// Asks NCCL's RAS service twice, to know what has moved in between: at half a step's limit, in a separate thread, and
/// when the limit is over.
class RasObserver {
 public:
  /// Begins to ask. Any thread; blocks only while an earlier question is under way, 3 s at most.
  void observe_early(RasFormat format);

  /// RAS's current state, compared with the early answer if there is one, or why there is none. Any thread; blocks for
  /// 11 s at most.
  RasEvidence look_again(RasFormat format);

 private:
  std::mutex mutex_;                         ///< over what follows
  std::shared_future<std::string> earlier_;  ///< its destructor waits for its thread
};

}  // namespace busbar
