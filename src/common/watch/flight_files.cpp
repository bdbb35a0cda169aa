#include "common/watch/flight_layout.h"
#include "common/watch/flight_place.h"
#include "common/watch/flight_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <system_error>

namespace busbar {
namespace {

constexpr std::int64_t kOldRecord = 24 * 3600;  // [s]

bool is_mine(const std::filesystem::path& file) {
  struct stat info {};
  return lstat(file.c_str(), &info) == 0 && info.st_uid == geteuid();
}

/// Files in a folder whose names begin so; a folder that cannot be read has none.
std::vector<std::filesystem::path> files_named(const std::filesystem::path& folder, const std::string& prefix) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) files.push_back(at->path());
  }
  return files;
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

std::vector<FlightState> read_flights(std::span<const std::filesystem::path> folders, std::string_view jobid) {
  std::vector<FlightState> flights;
  for (const std::filesystem::path& folder : folders) {
    for (const std::filesystem::path& file : files_named(folder, "busbar.")) {
      if (!jobid.empty() && !is_mine(file) && geteuid() != 0) continue;
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

}  // namespace busbar
