#include "common/watch/peer_messages.h"
#include "common/watch/watchdog_impl.h"

namespace busbar {

void Watchdog::Impl::postpone(double seconds) {
  next_look = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Watchdog::Impl::tick() {
  const std::shared_ptr<FlightRecord> own = current_record();
  own->beat();
  if (ending || stopping) return;
  if (!look_at(own->state()) || Clock::now() < next_look.load() || investigating.exchange(true)) return;
  if (collector.joinable()) collector.join();  // it is over: `investigating` was false
  collector = std::thread([this] {
    investigate();
    investigating = false;
  });
}

/// Whether something is to be done about the step under way.
bool Watchdog::Impl::look_at(const FlightState& me) {
  if (alarmed) return true;
  if (me.limit_s <= 0) return false;
  const bool waiting = me.idle_s >= me.limit_s / 2;
  if (!waiting) {
    looked_early = false;
    deferred = Clock::time_point{};
  } else if (!looked_early) {
    looked_early = true;
    look_early();
  }
  if (me.idle_s >= me.limit_s) return true;
  // That it is slow one host says for all.
  if (me.step_age_s < me.limit_s || view().host_index() != 0) return false;
  return !slow_told ||
         me.step_age_s >= slow_limit_s(me.limit_s, me.step_age_s, static_cast<double>(me.entered - me.step_first),
                                       static_cast<double>(me.step_calls));
}

/// At half the limit: what later looks are compared with.
void Watchdog::Impl::look_early() {
  observer.look_early();
  const JobView now = view();
  std::string errors;
  {
    const std::lock_guard lock(mutex);
    for (const Backend* backend : backends) {
      if (const auto error = backend->asynchronous_error()) errors += (errors.empty() ? "" : "; ") + *error;
    }
  }
  current_record()->set_error(errors);
  const bool first_of_job = !now.hosts.empty() && now.hosts.front().front() == now.rank;
  if (has_ras && first_of_job) ras_observer.look_early();
}

std::string Watchdog::Impl::handle(std::string_view request) {
  if (request == kAskEvidence) {
    const JobView now = view();
    observer.look_closely(now);
    return encode(observer.evidence(now));
  }
  if (request == kAlarm) {
    constexpr std::chrono::seconds kStillTrue{10};
    const Clock::time_point moved = last_moved;
    if (moved != Clock::time_point{} && Clock::now() - moved < kStillTrue) return std::string(kMoves);
    alarmed = true;
    next_look = Clock::time_point{};
    return std::string(kComing);
  }
  if (request == kPing) return "here";
  if (request == kTold) {
    told = true;
    return "noted";
  }
  if (request == kForget) {
    keep_records = false;
    forget = true;
    return "noted";
  }
  if (request == kStop || request == kStopAndKeep) {
    if (request == kStopAndKeep) keep_records = true;
    ending = true;
    if (leaver.joinable()) return "leaving";
    leaver = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // for the reply
      leave();
    });
    return "leaving";
  }
  return "unknown request";
}

}  // namespace busbar
