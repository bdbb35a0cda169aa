#pragma once

#include "common/backends/observer.h"
#include "common/watch/flight_record.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace busbar {

// The layout of a flight record in memory. Any change needs a new kFlightVersion: readers of another version refuse it.
// All times are CLOCK_MONOTONIC [ns], which every process of a host shares.

inline constexpr std::uint64_t kFlightMagic = 0x5246'7261'6273'7562;  // "busbarFR" in the byte order of its writer
inline constexpr std::uint32_t kFlightVersion = 2;
inline constexpr std::uint32_t kFirstFlightVersion = 1;  ///< read too: its command took the place of pid_namespace
inline constexpr std::size_t kFinishedSteps = 16;

/// Mixes 64-bit words (the finalizer of splitmix64, Steele et al. 2014). Detects mixed writes and flipped bits.
inline std::uint64_t flight_checksum(const void* data, std::size_t nbytes, std::uint64_t seed) {
  std::uint64_t sum = seed + 0x9e3779b97f4a7c15;
  for (std::size_t at = 0; at + sizeof sum <= nbytes; at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(data) + at, sizeof word);
    sum = (sum ^ word) * 0xbf58476d1ce4e5b9;
    sum = (sum ^ (sum >> 27)) * 0x94d049bb133111eb;
    sum ^= sum >> 31;
  }
  return sum;
}

/// Whose record it is; never changes.
struct FlightHead {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t nbytes;  ///< of the whole record
  std::uint64_t boot;    ///< which start of which machine: detects a record that was copied from another host
  std::int64_t pid;
  std::uint64_t pid_start;
  std::int64_t started_unix_s;
  std::int64_t rank;
  char jobid[136];
  char host[136];
  char command[248];
  std::uint64_t pid_namespace;  ///< in which `pid` counts; 0: not known
  std::uint64_t check;          ///< of everything above
};

struct FlightCall {
  char collective[24];
  char dtype[16];
  char op[16];
  std::uint64_t count;
  std::uint64_t nbytes;
  std::int32_t communicator;
  std::int32_t root;
  std::uint32_t in_place;
  std::uint32_t present;
};

struct FlightFinished {
  char collective[24];
  std::uint64_t nbytes;
  std::uint64_t last_entered;
  std::int64_t begun_ns;
  std::int64_t ended_ns;
  std::uint64_t phase;
};

/// Written by the main thread.
struct FlightStep {
  std::int32_t nprocs;
  std::int32_t lanes;  ///< whose counters count
  std::uint64_t phase;
  char text[256];
  FlightCall call;
  std::uint64_t first;
  std::uint64_t calls;
  std::int64_t begun_ns;
  double limit_s;
  std::uint64_t nfinished;  ///< in all; the newest is finished[(nfinished - 1) % kFinishedSteps]
  FlightFinished finished[kFinishedSteps];
};

/// Written by the watcher.
struct FlightBeat {
  std::int64_t beat_ns;
  std::int64_t beat_unix_s;
  std::int64_t changed_ns;  ///< when a beat first saw what it still sees
  std::uint64_t seen_step;  ///< number of the step
  std::uint64_t seen_sum;   ///< of all counters
  char error[256];
};

/// A value that one thread writes and any thread reads, even if the writer is frozen in the middle of a write. There
/// are two copies; the writer overwrites the older one. A copy with the right checksum is whole, in whatever order its
/// words were read. Zeros: never written.
template <typename T>
struct DoubleBuffer {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(std::uint64_t) == 0);
  static constexpr std::size_t kWords = sizeof(T) / sizeof(std::uint64_t);
  struct Copy {
    std::uint64_t number;  ///< of the write, from 1
    std::uint64_t check;
    std::array<std::uint64_t, kWords> words;
  };
  struct Read {
    std::uint64_t number;
    T value;
  };
  Copy copies[2];

  void write(const T& value) noexcept {
    const std::uint64_t number = last() + 1;
    Copy& copy = copies[number % 2];
    std::array<std::uint64_t, kWords> words;
    std::memcpy(words.data(), &value, sizeof value);
    store(copy.check, 0);
    for (std::size_t i = 0; i < kWords; ++i) store(copy.words[i], words[i]);
    store(copy.number, number);
    store(copy.check, flight_checksum(words.data(), sizeof words, number));
  }

  /// The number of the last write; 0 before the first. Any thread.
  std::uint64_t last() const noexcept { return std::max(load(copies[0].number), load(copies[1].number)); }

  /// The newest whole copy. For the writer, and for readers of bytes that nobody writes.
  std::optional<Read> read() const {
    std::optional<Read> newest;
    for (const Copy& copy : copies) {
      if (copy.number == 0 || (newest && newest->number > copy.number)) continue;
      if (copy.check != flight_checksum(copy.words.data(), sizeof copy.words, copy.number)) continue;
      newest.emplace();
      newest->number = copy.number;
      std::memcpy(&newest->value, copy.words.data(), sizeof(T));
    }
    return newest;
  }

 private:
  static void store(std::uint64_t& word, std::uint64_t value) noexcept {
    std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_relaxed);
  }
  static std::uint64_t load(const std::uint64_t& word) noexcept {
    return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(word)).load(std::memory_order_relaxed);
  }
};

struct FlightLayout {
  FlightHead head;
  DoubleBuffer<FlightStep> step;
  DoubleBuffer<FlightBeat> beat;
  std::uint64_t ending;
  LaneCounter lanes[kMaxLanes];
};

static_assert(sizeof(FlightLayout) <= 64 * 1024 && std::is_standard_layout_v<FlightLayout>);

/// The lanes' counters taken together.
struct FlightCounters {
  std::uint64_t sum = 0;
  std::uint64_t entered = 0;  ///< by all lanes up to the last that counted, and by all that were declared
};
FlightCounters sum_up(std::span<const std::uint64_t, kMaxLanes> lanes, int declared) noexcept;

// Where records are, and what readers of another host's records must know: flight_files.cpp.

/// CLOCK_MONOTONIC [ns].
std::int64_t flight_clock_ns() noexcept;

/// "busbar.UID.JOBID.HOST."; a record's rank follows.
std::string flight_file_prefix(std::string_view jobid, std::string_view host);

/// Files in these folders whose names begin with `prefix`. A folder that cannot be read has none.
std::vector<std::filesystem::path> files_named(std::span<const std::filesystem::path> folders,
                                               const std::string& prefix);

/// $TMPDIR, else /tmp.
std::filesystem::path temporary_folder();

}  // namespace busbar
