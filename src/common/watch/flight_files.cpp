#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/watch/flight_layout.h"
#include "common/watch/flight_record.h"
#include "common/watch/local_evidence.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>

namespace busbar {
namespace {

/// Whether a process that still runs keeps its record under this path: another launch that is told the same job id.
bool in_use(const std::filesystem::path& path) {
  const std::optional<FlightState> flight = read_flight(path);
  return flight && flight->pid_start != 0 && process_start(flight->pid) == flight->pid_start;
}

/// The whole file is reserved here: a store into a hole of a full /dev/shm would be a SIGBUS later.
void* map_new_file(const std::filesystem::path& path, std::size_t nbytes) {
  // O_EXCL never follows a link that somebody else has laid into a folder that all may write.
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return nullptr;
  void* memory = MAP_FAILED;
  int failed = EINTR;
  while (failed == EINTR) failed = posix_fallocate(fd, 0, static_cast<off_t>(nbytes));
  // Populated, so that no first store of a lane's counter faults inside a timed loop.
  if (failed == 0) memory = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  close(fd);
  if (memory != MAP_FAILED) return memory;
  unlink(path.c_str());
  return nullptr;
}

constexpr std::int64_t kOldRecord = 24 * 3600;  // [s]

bool is_mine(const std::filesystem::path& file) {
  struct stat info {};
  return lstat(file.c_str(), &info) == 0 && info.st_uid == geteuid();
}

std::string this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Whether nobody needs it any more. Only of this host's processes can be told that they are gone; what beats is not
/// gone even where its pid is of another namespace.
bool is_abandoned(const std::filesystem::path& file, const std::string& host) {
  const std::optional<FlightState> flight = read_flight(file);
  if (!flight || flight->host != host || process_start(flight->pid) == flight->pid_start) return false;
  // Not the file's own time: stores into mapped memory do not move it.
  const std::optional<std::int64_t> beat_s = last_beat_unix_s(file);
  return beat_s && static_cast<std::int64_t>(std::time(nullptr)) - *beat_s > kOldRecord;
}

}  // namespace

FlightPlace make_flight_place(std::span<const std::filesystem::path> folders, const std::string& name,
                              std::size_t nbytes) {
  for (const std::filesystem::path& folder : folders) {
    std::filesystem::path path = folder / name;
    if (in_use(path)) path += "." + std::to_string(getpid());
    unlink(path.c_str());
    if (void* memory = map_new_file(path, nbytes)) return {memory, path};
  }
  void* memory = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {memory, {}};
}

void release_flight_place(void* memory, std::size_t nbytes, const std::filesystem::path& path, bool remove) noexcept {
  const std::int64_t pid = static_cast<const FlightLayout*>(memory)->head.pid;
  munmap(memory, nbytes);
  // A child that was forked and not replaced leaves its parent's record alone.
  if (remove && !path.empty() && pid == getpid()) unlink(path.c_str());
}

std::filesystem::path temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

std::string fit_for_file_name(std::string_view text, std::size_t length) {
  std::string fit;
  for (const char c : text.substr(0, length)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    fit += letter || c == '_' || c == '-' || (c == '.' && !fit.empty()) ? c : '_';
  }
  return fit;
}

std::string flight_file_prefix(std::string_view jobid, std::string_view host) {
  constexpr std::size_t kLength = 100;
  return "busbar." + std::to_string(getuid()) + "." + fit_for_file_name(jobid, kLength) + "." +
         fit_for_file_name(host, kLength) + ".";
}

std::vector<std::filesystem::path> files_named(const std::filesystem::path& folder, const std::string& prefix) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) files.push_back(at->path());
  }
  return files;
}

std::vector<FlightState> read_flights(std::span<const std::filesystem::path> folders, std::string_view jobid) {
  std::vector<FlightState> flights;
  for (const std::filesystem::path& folder : folders) {
    for (const std::filesystem::path& file : files_named(folder, "busbar.")) {
      if (!jobid.empty() && !is_mine(file)) continue;
      std::optional<FlightState> flight = read_flight(file);
      if (flight && (jobid.empty() || flight->jobid == jobid)) flights.push_back(std::move(*flight));
    }
  }
  std::stable_sort(flights.begin(), flights.end(),
                   [](const FlightState& a, const FlightState& b) { return a.rank < b.rank; });
  return flights;
}

std::vector<std::filesystem::path> flight_folders() {
  const std::filesystem::path shared = "/dev/shm", temporary = temporary_folder();
  std::error_code error;
  if (std::filesystem::equivalent(shared, temporary, error)) return {shared};
  return {shared, temporary};
}

int remove_old_flights(std::span<const std::filesystem::path> folders) {
  const std::string host = this_host();
  int removed = 0;
  for (const std::filesystem::path& folder : folders) {
    for (const std::filesystem::path& file : files_named(folder, "busbar." + std::to_string(getuid()) + ".")) {
      if (!is_mine(file) || !is_abandoned(file, host)) continue;
      if (unlink(file.c_str()) == 0) ++removed;
    }
  }
  return removed;
}

namespace {

using GetVariable = const char* (*)(const char*);

std::string value(GetVariable get, const char* variable) {
  const char* text = get(variable);
  return text != nullptr ? text : "";
}

std::string first_of(GetVariable get, std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    if (std::string text = value(get, variable); !text.empty()) return text;
  }
  return {};
}

/// One launch within its batch job. mpirun's name first: its ranks see the Slurm step of the daemon that started them,
/// which is another one on each host. PMIx's name of ranks that srun started is "slurm.pmix.JOB.STEP".
std::string launch_name(GetVariable get) {
  if (std::string name = first_of(get, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}); !name.empty()) return name;
  const std::string step = value(get, "SLURM_STEP_ID");
  // Slurm's reserved steps from 0xfffffff0 on are shells (batch, extern, interactive), in which many launches may run.
  const bool shell = step.size() > 9 && step >= "4294967280";
  return value(get, "SLURM_PROCID").empty() || shell ? "" : step;
}

}  // namespace

std::string environment_jobid(GetVariable get) {
  if (get == nullptr) get = [](const char* variable) -> const char* { return std::getenv(variable); };
  const std::string job = first_of(get, {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"});
  const std::string launch = launch_name(get);
  constexpr std::size_t kLength = 100;
  if (launch.empty()) {
    // In Flux a launch is a job of its own.
    return value(get, "FLUX_TASK_RANK").empty() ? "" : fit_for_file_name(value(get, "FLUX_JOB_ID"), kLength);
  }
  const bool says_job = job.empty() || contains(split_text(launch, '.'), job);
  return fit_for_file_name(says_job ? launch : job + "." + launch, kLength);
}

}  // namespace busbar
