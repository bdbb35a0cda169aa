#include "common/watch/flight_layout.h"
#include "common/watch/flight_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <limits>

namespace busbar {
namespace {

/// Up to the first zero. It goes to terminals and into JSON: what could command a terminal, and letters that are not
/// ASCII, become question marks.
template <std::size_t N>
std::string text(const char (&from)[N]) {
  std::string text(from, strnlen(from, N));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

double age_s(std::int64_t now_ns, std::int64_t then_ns) {
  return std::max(0.0, (static_cast<double>(now_ns) - static_cast<double>(then_ns)) / 1e9);
}

template <typename T>
T part(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::optional<FlightHead> valid_head(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(FlightLayout)) return std::nullopt;
  const auto head = part<FlightHead>(bytes, offsetof(FlightLayout, head));
  if (head.magic != kFlightMagic || head.version < kFirstFlightVersion || head.version > kFlightVersion ||
      head.nbytes != sizeof(FlightLayout) ||
      head.check != flight_checksum(&head, offsetof(FlightHead, check), head.version) || head.rank < 0 ||
      head.rank > std::numeric_limits<int>::max()) {
    return std::nullopt;
  }
  return head;
}

FlightCounters read_counters(std::span<const std::byte> bytes, int declared) {
  std::array<std::uint64_t, kMaxLanes> lanes;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lanes[i] = part<std::uint64_t>(bytes, offsetof(FlightLayout, lanes) + i * sizeof(LaneCounter));
  }
  return sum_up(lanes, declared);
}

void read_call(const FlightCall& call, FlightState& state) {
  if (call.present != 1) return;
  state.call =
      CalledOperation{call.communicator, text(call.collective), call.count,        text(call.dtype), text(call.op),
                      call.root,         call.nbytes,           call.in_place == 1};
}

bool valid(std::uint64_t phase) { return phase <= static_cast<std::uint64_t>(Phase::ended); }

bool read_step(const FlightStep& step, std::int64_t now_ns, FlightState& state) {
  if (!valid(step.phase)) return false;
  state.nprocs = step.nprocs;
  state.phase = static_cast<Phase>(step.phase);
  state.step = text(step.text);
  read_call(step.call, state);
  state.step_first = step.first;
  state.step_calls = step.calls;
  state.step_age_s = age_s(now_ns, step.begun_ns);
  state.limit_s = std::isfinite(step.limit_s) ? step.limit_s : 0;
  const std::uint64_t kept = std::min<std::uint64_t>(step.nfinished, kFinishedSteps);
  for (std::uint64_t i = step.nfinished - kept; i != step.nfinished; ++i) {
    const FlightFinished& finished = step.finished[i % kFinishedSteps];
    if (!valid(finished.phase)) return false;
    state.finished.push_back({static_cast<Phase>(finished.phase), text(finished.collective), finished.nbytes,
                              finished.last_entered, age_s(now_ns, finished.begun_ns),
                              age_s(now_ns, finished.ended_ns)});
  }
  return true;
}

Ending read_ending(std::span<const std::byte> bytes) {
  const auto ending = part<std::uint64_t>(bytes, offsetof(FlightLayout, ending));
  return ending <= static_cast<std::uint64_t>(Ending::signalled) ? static_cast<Ending>(ending) : Ending::none;
}

}  // namespace

std::optional<FlightState> parse_flight(std::span<const std::byte> bytes, std::int64_t now_ns) {
  const std::optional<FlightHead> head = valid_head(bytes);
  if (!head) return std::nullopt;
  const auto step = part<DoubleBuffer<FlightStep>>(bytes, offsetof(FlightLayout, step)).read();
  const auto beat = part<DoubleBuffer<FlightBeat>>(bytes, offsetof(FlightLayout, beat)).read();
  FlightState state;
  if (!step || !beat || !read_step(step->value, now_ns, state)) return std::nullopt;
  state.jobid = text(head->jobid);
  state.host = text(head->host);
  state.rank = static_cast<int>(head->rank);
  state.pid = head->pid;
  state.pid_start = head->pid_start;
  state.command = text(head->command);
  state.pid_namespace = head->version > kFirstFlightVersion ? head->pid_namespace : 0;
  state.started_unix_s = head->started_unix_s;
  state.heartbeat_age_s = age_s(now_ns, beat->value.beat_ns);
  state.error = text(beat->value.error);
  state.ending = read_ending(bytes);
  if (state.ending == Ending::good) state.phase = Phase::ended;
  const FlightCounters counters = read_counters(bytes, step->value.lanes);
  state.entered = counters.entered;
  // A process that is frozen does not say so: what its last beat saw still holds, or it moved a little after it.
  const bool moved = beat->value.seen_step != step->number || beat->value.seen_sum != counters.sum;
  state.idle_s = moved ? state.heartbeat_age_s : age_s(now_ns, beat->value.changed_ns);
  return state;
}

FlightCounters sum_up(std::span<const std::uint64_t, kMaxLanes> lanes, int declared) noexcept {
  std::size_t used = lanes.size();
  while (used > static_cast<std::size_t>(std::clamp(declared, 1, kMaxLanes)) && lanes[used - 1] == 0) --used;
  FlightCounters counters{0, lanes[0]};
  for (const std::uint64_t lane : lanes.first(used)) {
    counters.sum += lane;
    counters.entered = std::min(counters.entered, lane);
  }
  return counters;
}

namespace {

struct alignas(FlightLayout) FlightBytes : std::array<std::byte, sizeof(FlightLayout)> {};

FlightHead head_of(const FlightBytes& bytes) {
  FlightHead head;
  std::memcpy(&head, bytes.data() + offsetof(FlightLayout, head), sizeof head);
  return head;
}

std::optional<FlightBeat> beat_of(const FlightBytes& bytes) {
  DoubleBuffer<FlightBeat> beat;
  std::memcpy(&beat, bytes.data() + offsetof(FlightLayout, beat), sizeof beat);
  if (const auto last = beat.read()) return last->value;
  return std::nullopt;
}

/// The time from which ages count: now, or for a record from elsewhere its own last beat.
std::int64_t reading_time_ns(const FlightBytes& bytes) {
  if (head_of(bytes).boot == this_boot()) return flight_clock_ns();
  const std::optional<FlightBeat> beat = beat_of(bytes);
  return beat ? beat->beat_ns : flight_clock_ns();
}

/// Calls `use` with the file's bytes, again until it has made something of them, a hundred times at most: what was
/// twice overwritten while it was read, which takes microseconds, is whole the next time. A writer that is frozen
/// leaves one copy whole.
template <typename Use>
auto with_bytes(const std::filesystem::path& file, Use use) -> decltype(use(FlightBytes{})) {
  // Not a pipe that would block, nor a link that leads elsewhere.
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  decltype(use(FlightBytes{})) made;
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == sizeof(FlightLayout)) {
    FlightBytes bytes;
    for (int attempt = 0; attempt < 100 && !made; ++attempt) {
      if (pread(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) break;
      made = use(bytes);
    }
  }
  close(fd);
  return made;
}

}  // namespace

std::optional<FlightState> read_flight(const std::filesystem::path& file) {
  return with_bytes(file, [](const FlightBytes& bytes) { return parse_flight(bytes, reading_time_ns(bytes)); });
}

std::optional<std::int64_t> last_beat_unix_s(const std::filesystem::path& file) {
  return with_bytes(file, [](const FlightBytes& bytes) {
    const std::optional<FlightBeat> beat = beat_of(bytes);
    return beat ? std::optional(beat->beat_unix_s) : std::nullopt;
  });
}

std::int64_t flight_clock_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::uint64_t this_boot() noexcept {
  std::array<std::uint64_t, 8> id{};
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const bool got = ::read(fd, id.data(), sizeof id) > 0;
  close(fd);
  return got ? flight_checksum(id.data(), sizeof id, 0) : 0;
}

}  // namespace busbar
