#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/watch/flight_layout.h"
#include "common/watch/flight_record.h"
#include "common/watch/local_evidence.h"
#include "common/watch/peer_address.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace busbar {
namespace {

/// Up to the first zero. Bytes that could steer a terminal, and bytes that are not ASCII, become question marks.
template <std::size_t N>
std::string text(const char (&from)[N]) {
  std::string text(from, strnlen(from, N));
  for (char& c : text)
    if (c < 0x20 || c > 0x7e) c = '?';
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
  for (std::size_t i = 0; i < lanes.size(); ++i)
    lanes[i] = part<std::uint64_t>(bytes, offsetof(FlightLayout, lanes) + i * sizeof(LaneCounter));
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

/// The time from which ages count: now; for a record from elsewhere, its own last beat.
std::int64_t reading_time_ns(std::span<const std::byte> bytes) {
  if (part<FlightHead>(bytes, offsetof(FlightLayout, head)).boot == this_boot()) return flight_clock_ns();
  const auto beat = part<DoubleBuffer<FlightBeat>>(bytes, offsetof(FlightLayout, beat)).read();
  return beat ? beat->value.beat_ns : flight_clock_ns();
}

constexpr std::int64_t kOldRecord = 24 * 3600;  // [s]

bool is_mine(const std::filesystem::path& file) {
  struct stat info {};
  return lstat(file.c_str(), &info) == 0 && info.st_uid == geteuid();
}

/// Whether nobody needs it any more. Only processes of this host can be known to be gone; a process that beats is not
/// gone even if its pid is in another namespace.
bool is_abandoned(const std::filesystem::path& file, const std::string& host) {
  const std::optional<FlightState> flight = read_flight(file);
  if (!flight || flight->host != host || process_start(flight->pid) == flight->pid_start) return false;
  // Not the file's modification time: stores into mapped memory do not change it.
  return static_cast<std::int64_t>(std::time(nullptr)) - flight->beat_unix_s > kOldRecord;
}

/// Only letters, digits, '_' and '-', and '.' between them.
std::string fit_for_file_name(std::string_view text) {
  constexpr std::size_t kLength = 100;
  std::string fit;
  for (const char c : text.substr(0, kLength)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    fit += letter || c == '_' || c == '-' || (c == '.' && !fit.empty()) ? c : '_';
  }
  return fit;
}

using GetVariable = const char* (*)(const char*);

std::string value(GetVariable get, const char* variable) {
  const char* text = get(variable);
  return text != nullptr ? text : "";
}

std::string first_of(GetVariable get, std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (std::string text = value(get, variable); !text.empty()) return text;
  return {};
}

/// One launch within its batch job. mpirun's name first: its ranks see the Slurm step of the daemon that started them,
/// which differs on each host. PMIx names ranks that srun started "slurm.pmix.JOB.STEP".
std::string launch_name(GetVariable get) {
  if (std::string name = first_of(get, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}); !name.empty()) return name;
  const std::string step = value(get, "SLURM_STEP_ID");
  // Slurm's reserved steps from 0xfffffff0 on are shells (batch, extern, interactive), in which many launches may run.
  const bool shell = step.size() > 9 && step >= "4294967280";
  return value(get, "SLURM_PROCID").empty() || shell ? "" : step;
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
  state.beat_unix_s = beat->value.beat_unix_s;
  state.error = text(beat->value.error);
  state.ending = read_ending(bytes);
  if (state.ending == Ending::good) state.phase = Phase::ended;
  const FlightCounters counters = read_counters(bytes, step->value.lanes);
  state.entered = counters.entered;
  // A frozen process cannot say so: either its last beat's state still holds, or it moved a little after it.
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

std::optional<FlightState> read_flight(const std::filesystem::path& file) {
  // Neither a pipe that would block nor a link that leads elsewhere.
  const Socket record(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (fstat(record.fd(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != sizeof(FlightLayout)) return {};
  std::array<std::byte, sizeof(FlightLayout)> bytes;
  // A record that was overwritten twice while it was read (microseconds) is whole the next time. A frozen writer leaves
  // one copy whole.
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (pread(record.fd(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) break;
    if (auto flight = parse_flight(bytes, reading_time_ns(bytes))) return flight;
  }
  return std::nullopt;
}

std::int64_t flight_clock_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::filesystem::path temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

std::string flight_file_prefix(std::string_view jobid, std::string_view host) {
  return "busbar." + std::to_string(getuid()) + "." + fit_for_file_name(jobid) + "." + fit_for_file_name(host) + ".";
}

std::vector<std::filesystem::path> files_named(std::span<const std::filesystem::path> folders,
                                               const std::string& prefix) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& folder : folders) {
    std::error_code error;
    std::filesystem::directory_iterator at(folder, error);
    for (; !error && at != std::filesystem::directory_iterator(); at.increment(error))
      if (at->path().filename().string().starts_with(prefix)) files.push_back(at->path());
  }
  return files;
}

std::vector<FlightState> read_flights(std::span<const std::filesystem::path> folders, std::string_view jobid) {
  std::vector<FlightState> flights;
  for (const std::filesystem::path& file : files_named(folders, "busbar.")) {
    if (!jobid.empty() && !is_mine(file)) continue;
    std::optional<FlightState> flight = read_flight(file);
    if (flight && (jobid.empty() || flight->jobid == jobid)) flights.push_back(std::move(*flight));
  }
  std::ranges::stable_sort(flights, {}, &FlightState::rank);
  return flights;
}

std::vector<std::filesystem::path> flight_folders() {
  const std::filesystem::path shared = "/dev/shm", temporary = temporary_folder();
  std::error_code error;
  if (std::filesystem::equivalent(shared, temporary, error)) return {shared};
  return {shared, temporary};
}

int remove_old_flights(std::span<const std::filesystem::path> folders) {
  const std::string host = full_host_name();
  int removed = 0;
  for (const std::filesystem::path& file : files_named(folders, "busbar." + std::to_string(getuid()) + "."))
    if (is_mine(file) && is_abandoned(file, host) && unlink(file.c_str()) == 0) ++removed;
  return removed;
}

std::string environment_jobid(GetVariable get) {
  if (get == nullptr) get = [](const char* variable) -> const char* { return std::getenv(variable); };
  const std::string job = first_of(get, {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"});
  const std::string launch = launch_name(get);
  if (launch.empty()) {
    // In Flux each launch is a job of its own.
    return value(get, "FLUX_TASK_RANK").empty() ? "" : fit_for_file_name(value(get, "FLUX_JOB_ID"));
  }
  const bool says_job = job.empty() || contains(split_text(launch, '.'), job);
  return fit_for_file_name(says_job ? launch : job + "." + launch);
}

}  // namespace busbar
