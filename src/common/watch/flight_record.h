#pragma once

#include "common/backends/observer.h"
#include "common/evidence/hang_evidence.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

struct FlightLayout;  ///< the bytes in shared memory

/// The process that writes a record.
struct FlightOwner {
  std::string jobid;
  std::string host;
  int rank = 0;
  int nprocs = 0;
  std::string command;
};

/// This process's flight record: a file in shared memory that neighbors read if this process cannot answer. The main
/// thread writes it (begin, set_...), its watcher beats (beat, set_error), any thread ends it. Never throws after
/// construction.
class FlightRecord {
 public:
  /// Makes busbar.UID.JOBID.HOST.RANK in `folder`, reserved with posix_fallocate, at most 64 KiB, for this user only;
  /// in $TMPDIR (else /tmp) if `folder` has no room. If neither has, the record is private memory and path() is empty.
  /// A dead process's file of that name is replaced; if a live one has it, the pid is appended.
  explicit FlightRecord(const FlightOwner& owner, const std::filesystem::path& folder = "/dev/shm");
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;
  /// Removes the file, unless keep() was called.
  ~FlightRecord();

  const std::filesystem::path& path() const { return path_; }

  void set_nprocs(int nprocs) noexcept;

  /// Lanes that launch: `entered` is their smallest counter. Until then, of the lanes up to the last that counted.
  void set_lanes(int lanes) noexcept;

  /// The step now under way. `calls`: operations that it makes, 0 if not known; `limit_s` 0: none.
  void begin_step(Phase phase, std::string_view step, const CalledOperation* call, std::uint64_t calls,
                  double limit_s) noexcept;

  /// From the watcher: the process is alive, and whether step or counters changed since the last beat.
  void beat() noexcept;
  void set_error(std::string_view error) noexcept;

  void end(Ending ending) noexcept;
  /// Leaves the file when the process ends.
  void keep() noexcept { keep_ = true; }

  /// kMaxLanes of them, for Backend::count_operations.
  std::span<LaneCounter> lanes() noexcept;

  /// What a reader would read now.
  FlightState state() const;

 private:
  FlightLayout* layout_ = nullptr;
  std::filesystem::path path_;
  std::atomic<bool> keep_{false};
};

/// Decodes a record's bytes; nullopt if they are not a whole record of a known version. Never reads beyond the span,
/// whatever it holds. `now_ns`: CLOCK_MONOTONIC of the host that wrote it.
std::optional<FlightState> parse_flight(std::span<const std::byte> bytes, std::int64_t now_ns);

/// The record in a file; nullopt if there is none. If it was copied from another host, or is older than this start of
/// the machine, ages count back from its own last beat.
std::optional<FlightState> read_flight(const std::filesystem::path& file);

/// All records of a job (empty: of all jobs) in `folders`, by rank. Of a named job only this user's: anyone could forge
/// evidence in a folder that all may write.
std::vector<FlightState> read_flights(std::span<const std::filesystem::path> folders, std::string_view jobid);

/// The folders of this user's records: /dev/shm and $TMPDIR (else /tmp).
std::vector<std::filesystem::path> flight_folders();

/// Removes this user's records of this host whose process is gone and last beat older than a day; returns how many.
int remove_old_flights(std::span<const std::filesystem::path> folders);

/// The name that scheduler and launcher give to this launch, as every rank finds it in its environment, fit for a file
/// name; empty if there is none. A batch job's name alone is not enough: several launches may run in it.
std::string environment_jobid(const char* (*get)(const char*) = nullptr);

}  // namespace busbar
