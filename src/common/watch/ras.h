#pragma once

#include "common/watch/hang_evidence.h"
#include "common/watch/ras_safety.h"

#include <chrono>
#include <future>
#include <mutex>
#include <string>
#include <string_view>

namespace busbar {

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
