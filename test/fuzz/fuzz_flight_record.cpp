// Catches: a flight record that makes its reader read out of bounds, or tell what no record may say: control letters
// for a terminal, negative ages, no numbers. Each input is tried as it is and with its checksums made right again,
// because else hardly one would come further than them.

#include "common/watch/flight_layout.h"
#include "common/watch/flight_record.h"
#include "fuzz_main.h"

#include <cmath>

using namespace busbar;

namespace {

constexpr std::int64_t kNow_ns = 1'000'000'000'000;

bool plain(const std::string& text) {
  for (const unsigned char c : text) {
    if (c < 0x20 || c > 0x7e) return false;
  }
  return text.size() <= 256;
}

bool plain_number(double value_s) { return std::isfinite(value_s) && value_s >= 0; }

std::string what_is_wrong(const FlightState& state) {
  if (!plain(state.jobid) || !plain(state.host) || !plain(state.command) || !plain(state.step) || !plain(state.error)) {
    return "a text";
  }
  if (state.call && (!plain(state.call->collective) || !plain(state.call->dtype) || !plain(state.call->op))) {
    return "a text of the call";
  }
  if (state.rank < 0 || state.phase > Phase::ended || state.ending > Ending::signalled)
    return "a rank, phase or ending";
  if (!plain_number(state.heartbeat_age_s) || !plain_number(state.step_age_s) || !plain_number(state.idle_s) ||
      !std::isfinite(state.limit_s)) {
    return "an age";
  }
  if (state.finished.size() > kFinishedSteps) return "too many steps";
  for (const FinishedStep& step : state.finished) {
    if (!plain(step.collective) || step.phase > Phase::ended || !plain_number(step.begun_age_s) ||
        !plain_number(step.ended_age_s)) {
      return "a finished step";
    }
  }
  return {};
}

std::string try_bytes(std::span<const std::byte> bytes) {
  const std::optional<FlightState> state = parse_flight(bytes, kNow_ns);
  return state ? what_is_wrong(*state) : "";
}

template <typename T>
void sign(DoubleBuffer<T>& buffer) {
  for (auto& copy : buffer.copies) {
    copy.check = flight_checksum(copy.words.data(), sizeof copy.words, copy.number);
  }
}

void sign(FlightLayout& layout) {
  layout.head.magic = kFlightMagic;
  layout.head.version = kFlightVersion;
  layout.head.nbytes = sizeof layout;
  layout.head.check = flight_checksum(&layout.head, offsetof(FlightHead, check), kFlightVersion);
  sign(layout.step);
  sign(layout.beat);
}

}  // namespace

const long kFuzzRounds = 20000;

std::string fuzz_one(std::string_view input) {
  // A block of exactly that size: the address sanitizer sees a step beyond it.
  const std::vector<std::byte> exact(reinterpret_cast<const std::byte*>(input.data()),
                                     reinterpret_cast<const std::byte*>(input.data() + input.size()));
  if (std::string wrong = try_bytes(exact); !wrong.empty()) return wrong;
  FlightLayout layout{};
  std::memcpy(static_cast<void*>(&layout), input.data(), std::min(input.size(), sizeof layout));
  sign(layout);
  return try_bytes(std::as_bytes(std::span(&layout, 1)));
}

std::vector<std::string> fuzz_seeds() {
  FlightRecord record({"77.0", "node3", 13, 16, "all_reduce_perf -b 8"}, "/nowhere");
  const CalledOperation call{2, "all_reduce", 16777216, "float", "sum", -1, 67108864, true};
  std::vector<std::string> seeds;
  for (int step = 0; step < 20; ++step) {
    record.begin_step(Phase::timed_loop, "the timed loop", &call, 25, 30);
    record.lanes()[step % 2].count();
    record.beat();
    record.set_error("remote process exited");
    const std::span<LaneCounter> lanes = record.lanes();
    // The counters are the end of the record.
    const char* end = reinterpret_cast<const char*>(lanes.data() + lanes.size());
    if (step % 6 == 0) seeds.emplace_back(end - sizeof(FlightLayout), end);
  }
  return seeds;
}
