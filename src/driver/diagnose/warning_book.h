#pragma once

#include "driver/diagnose/log_fact.h"
#include "driver/diagnose/warning_kind.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// Warnings of one shape.
struct WarningRecord {
  const WarningRule* rule = nullptr;
  std::string shape, example, where, timestamp;  ///< of the first
  std::uint32_t actor = 0;                       ///< the first that said it
  std::vector<std::uint32_t> actors;             ///< the first kActors that said it
  std::uint64_t actors_more = 0;                 ///< lines of others
  std::uint64_t times = 0;
  std::size_t file = 0;
  std::uint64_t line = 0;
};

/// Warnings grouped by shape; at most kRecords groups, what comes later is
/// counted.
class WarningBook {
 public:
  static constexpr std::size_t kRecords = 512;
  static constexpr std::size_t kActors = 8192;

  const WarningRule& add(const Warning& warning, std::string_view timestamp, std::uint32_t actor, std::size_t file,
                         std::uint64_t line);
  /// `actors`: this book's number of each actor of the other.
  void merge(WarningBook&& other, const std::vector<std::uint32_t>& actors);

  const std::vector<WarningRecord>& records() const { return records_; }
  std::uint64_t not_kept() const { return not_kept_; }

 private:
  std::vector<WarningRecord> records_;
  std::uint64_t not_kept_ = 0;
};

/// Causes before what follows from them; of one kind the earliest first, those without a time last and as they were
/// read.
std::vector<const WarningRecord*> causes_first(const WarningBook& book);

}  // namespace busbar
