#include "common/watch/flight_place.h"

#include "common/watch/flight_layout.h"
#include "common/watch/flight_record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <optional>
#include <string_view>

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

}  // namespace busbar
