#include "common/watch/flight_layout.h"
#include "common/watch/flight_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <ctime>
#include <fstream>
#include <iterator>

namespace busbar {
namespace {

struct alignas(FlightLayout) FlightBytes : std::array<std::byte, sizeof(FlightLayout)> {};

FlightHead head_of(const FlightBytes& bytes) {
  FlightHead head;
  std::memcpy(&head, bytes.data() + offsetof(FlightLayout, head), sizeof head);
  return head;
}

std::optional<FlightBeat> beat_of(const FlightBytes& bytes) {
  Twice<FlightBeat> beat;
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

std::uint64_t process_start(std::int64_t pid) noexcept try {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  // The second field is the name in parentheses, which may hold blanks and parentheses itself.
  std::size_t at = stat.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  std::uint64_t start = 0;
  if (at != std::string::npos) std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), start);
  return start;
} catch (...) {
  return 0;
}

}  // namespace busbar
