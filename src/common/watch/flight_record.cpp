#include "common/watch/flight_record.h"

#include "common/machine/machine_facts.h"
#include "common/watch/flight_layout.h"
#include "common/watch/local_evidence.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <new>
#include <utility>

namespace busbar {
namespace {

/// Copies as much of the text as fits, and fills the rest with zeros.
template <std::size_t N>
void copy_text(char (&to)[N], std::string_view text) noexcept {
  std::memset(to, 0, N);
  std::memcpy(to, text.data(), std::min(text.size(), N));
}

FlightCounters counters(const FlightLayout& layout, int declared) noexcept {
  std::array<std::uint64_t, kMaxLanes> lanes;
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = layout.lanes[i].entered.load(std::memory_order_relaxed);
  return sum_up(lanes, declared);
}

FlightCall packed(const CalledOperation& call) noexcept {
  FlightCall packed{};
  copy_text(packed.collective, call.collective);
  copy_text(packed.dtype, call.dtype);
  copy_text(packed.op, call.op);
  packed.count = call.count;
  packed.nbytes = call.nbytes;
  packed.communicator = call.communicator;
  packed.root = call.root;
  packed.in_place = call.in_place ? 1 : 0;
  packed.present = 1;
  return packed;
}

/// Puts the finished step into the ring.
void finish(FlightStep& step, std::uint64_t last_entered, std::int64_t now_ns) noexcept {
  if (static_cast<Phase>(step.phase) == Phase::resting) return;
  FlightFinished& finished = step.finished[step.nfinished++ % kFinishedSteps];
  std::memcpy(finished.collective, step.call.collective, sizeof finished.collective);
  finished.nbytes = step.call.nbytes;
  finished.last_entered = last_entered;
  finished.begun_ns = step.begun_ns;
  finished.ended_ns = now_ns;
  finished.phase = step.phase;
}

void write_head(FlightHead& head, const FlightOwner& owner) {
  FlightHead made{};
  made.magic = kFlightMagic;
  made.version = kFlightVersion;
  made.nbytes = sizeof(FlightLayout);
  made.boot = this_boot();
  made.pid = getpid();
  made.pid_start = process_start(made.pid);
  made.started_unix_s = std::time(nullptr);
  made.rank = owner.rank;
  copy_text(made.jobid, owner.jobid);
  copy_text(made.host, owner.host);
  copy_text(made.command, owner.command);
  made.pid_namespace = own_pid_namespace();
  made.check = flight_checksum(&made, offsetof(FlightHead, check), kFlightVersion);
  std::memcpy(&head, &made, sizeof head);
}

/// The main thread's last step, for that thread to change.
FlightStep last_step(const FlightLayout& layout) noexcept {
  const auto last = layout.step.read();
  return last ? last->value : FlightStep{};
}

/// Whether a live process keeps its record under this path: another launch with the same job id.
bool in_use(const std::filesystem::path& path) {
  const std::optional<FlightState> flight = read_flight(path);
  return flight && flight->pid_start != 0 && process_start(flight->pid) == flight->pid_start;
}

/// Reserves the whole file: a store into a hole of a full /dev/shm would raise SIGBUS later.
void* map_new_file(const std::filesystem::path& path) {
  // O_EXCL never follows a link that somebody else has put into a folder that all may write.
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  void* memory = MAP_FAILED;
  int failed = EINTR;
  while (failed == EINTR) failed = posix_fallocate(fd, 0, sizeof(FlightLayout));
  // Populated, so that no first store to a lane's counter faults inside a timed loop.
  if (failed == 0)
    memory = mmap(nullptr, sizeof(FlightLayout), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  close(fd);
  if (memory != MAP_FAILED) return memory;
  unlink(path.c_str());
  return nullptr;
}

/// Shared memory and its file; an empty path means private memory.
struct FlightPlace {
  void* memory = nullptr;
  std::filesystem::path path;
};

/// A new file `name`, zeroed, reserved and mapped, in the first of `folders` that has room, for this user only.
FlightPlace make_place(std::span<const std::filesystem::path> folders, const std::string& name) {
  for (const std::filesystem::path& folder : folders) {
    std::filesystem::path path = folder / name;
    if (in_use(path)) path += "." + std::to_string(getpid());
    unlink(path.c_str());
    if (void* memory = map_new_file(path)) return {memory, path};
  }
  void* memory = mmap(nullptr, sizeof(FlightLayout), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {memory, {}};
}

}  // namespace

FlightRecord::FlightRecord(const FlightOwner& owner, const std::filesystem::path& folder) {
  const std::string name = flight_file_prefix(owner.jobid, owner.host) + std::to_string(owner.rank);
  const std::array<std::filesystem::path, 2> folders{folder, temporary_folder()};
  FlightPlace place = make_place(folders, name);
  layout_ = static_cast<FlightLayout*>(place.memory);
  path_ = std::move(place.path);
  FlightStep step{};
  step.nprocs = owner.nprocs;
  step.lanes = 1;
  step.phase = static_cast<std::uint64_t>(Phase::starting);
  copy_text(step.text, "starting");
  step.begun_ns = flight_clock_ns();
  layout_->step.write(step);
  beat();
  write_head(layout_->head, owner);  // last: a record needs its head
}

FlightRecord::~FlightRecord() {
  const std::int64_t pid = layout_->head.pid;
  munmap(layout_, sizeof(FlightLayout));
  // A child that was forked without exec leaves its parent's record alone.
  if (!keep_ && !path_.empty() && pid == getpid()) unlink(path_.c_str());
}

void FlightRecord::set_nprocs(int nprocs) noexcept {
  FlightStep step = last_step(*layout_);
  step.nprocs = nprocs;
  layout_->step.write(step);
}

void FlightRecord::set_lanes(int lanes) noexcept {
  FlightStep step = last_step(*layout_);
  step.lanes = std::clamp(lanes, 1, kMaxLanes);
  layout_->step.write(step);
}

void FlightRecord::begin_step(Phase phase, std::string_view text, const CalledOperation* call, std::uint64_t calls,
                              double limit_s) noexcept {
  FlightStep step = last_step(*layout_);
  const std::int64_t now_ns = flight_clock_ns();
  const std::uint64_t now_entered = counters(*layout_, step.lanes).entered;
  finish(step, now_entered, now_ns);
  step.phase = static_cast<std::uint64_t>(phase);
  copy_text(step.text, text);
  step.call = call != nullptr ? packed(*call) : FlightCall{};
  step.first = now_entered;
  step.calls = calls;
  step.begun_ns = now_ns;
  step.limit_s = limit_s;
  layout_->step.write(step);
}

void FlightRecord::beat() noexcept {
  const auto last = layout_->beat.read();
  FlightBeat beat = last ? last->value : FlightBeat{};
  const std::uint64_t sum = counters(*layout_, kMaxLanes).sum;
  const std::uint64_t step = layout_->step.last();
  const std::int64_t now_ns = flight_clock_ns();
  // Time in which this process itself did not run (a suspended job, a host without a free core) is not idle time.
  constexpr std::int64_t kGap = 3'000'000'000;  // [ns] six beats
  if (last && now_ns - beat.beat_ns > kGap) beat.changed_ns += now_ns - beat.beat_ns;
  beat.beat_ns = now_ns;
  beat.beat_unix_s = std::time(nullptr);
  if (!last || beat.seen_step != step || beat.seen_sum != sum) beat.changed_ns = beat.beat_ns;
  beat.seen_step = step;
  beat.seen_sum = sum;
  layout_->beat.write(beat);
}

void FlightRecord::set_error(std::string_view error) noexcept {
  const auto last = layout_->beat.read();
  FlightBeat beat = last ? last->value : FlightBeat{};
  copy_text(beat.error, error);
  layout_->beat.write(beat);
}

void FlightRecord::end(Ending ending) noexcept {
  std::atomic_ref<std::uint64_t>(layout_->ending).store(static_cast<std::uint64_t>(ending), std::memory_order_relaxed);
}

std::span<LaneCounter> FlightRecord::lanes() noexcept { return layout_->lanes; }

FlightState FlightRecord::state() const {
  // Words, because the bytes change meanwhile; the record's checksums show whether the copy is whole.
  using Word [[gnu::may_alias]] = std::uint64_t;
  constexpr std::size_t kWords = sizeof(FlightLayout) / sizeof(Word);
  std::array<std::uint64_t, kWords> copy;
  const auto* words = reinterpret_cast<const Word*>(layout_);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    for (std::size_t i = 0; i < kWords; ++i) copy[i] = __atomic_load_n(words + i, __ATOMIC_RELAXED);
    if (auto state = parse_flight(std::as_bytes(std::span(copy)), flight_clock_ns())) return *state;
  }
  return {};  // not in practice: a thread would have to begin a step every microsecond
}

}  // namespace busbar
