#include "driver/diagnose/call_lag.h"

#include <algorithm>

namespace busbar {

static constexpr std::int64_t kQueueLength = 1024;  // launches that a CUDA stream takes before the host waits

std::optional<CallLag> find_lag(const JobBook& book, const CallAlignment& alignment) {
  if (alignment.how == CallAlignment::How::none || !alignment.certain) return std::nullopt;
  CallLag lag;
  lag.front = INT64_MIN;
  lag.least = INT64_MAX;
  for (const PlacedCalls& placed : alignment.streams) {
    lag.front = std::max(lag.front, placed.end());
    lag.least = std::min(lag.least, placed.end());
  }
  if (lag.front == lag.least) return std::nullopt;
  std::size_t cut = 0;
  for (std::uint32_t i = 0; i < alignment.streams.size(); ++i) {
    const PlacedCalls& placed = alignment.streams[i];
    const bool at_front = placed.end() == lag.front;
    (at_front ? lag.at_front : lag.behind).push_back(i);
    if (at_front) continue;
    const bool left = book.instances[placed.member->instance].ended && !book.instances[placed.member->instance].aborted;
    // The call that is missing may be the line that was cut.
    if (left || (book.actors[placed.member->actor].cut && placed.end() + 1 == lag.front)) ++cut;
  }
  if (cut == lag.behind.size()) return lag;
  lag.waited_for = lag.at_front.size() > lag.behind.size() || lag.front - lag.least > kQueueLength;
  return lag;
}

}  // namespace busbar
