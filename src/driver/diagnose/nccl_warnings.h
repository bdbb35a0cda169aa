#pragma once

#include "driver/readers/log_fact.h"
#include "driver/rules/line_rules.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The first rule that fits; of kind `other` if none does. `file`: where in NCCL.
const LineRule& classify_warning(std::string_view file, std::string_view text);

/// Numbers, addresses and names of segments replaced, so that warnings of one kind become equal.
std::string warning_shape(std::string_view text);

/// The writer of a warning: a process that NCCL names, or what else is known of it.
struct WarningWriter {
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  std::uint32_t source = kNobody;
  std::span<const int> ranks;  ///< if there is no source
  std::string_view host;
  std::string_view device;
};

/// Warnings of one shape.
struct WarningRecord {
  const LineRule* rule = nullptr;
  std::string shape, example, where, timestamp;   ///< of the first
  std::uint32_t source = WarningWriter::kNobody;  ///< the first that logged it
  std::set<int> ranks;                            ///< that logged it without a source
  std::set<std::string> hosts, devices;           ///< the same
  std::vector<std::uint32_t> sources;             ///< the first kSources that logged it
  std::uint64_t times = 0;
  std::size_t file = 0;
  std::uint64_t line = 0;
};

/// Warnings grouped by shape; at most kRecords groups, what comes later is counted.
class WarningBook {
 public:
  static constexpr std::size_t kRecords = 512;
  static constexpr std::size_t kSources = 8192;

  /// `rule`: what it is, as classify_warning() or read_program_line() found.
  void add(const LineRule& rule, const Warning& warning, std::string_view timestamp, const WarningWriter& writer,
           std::size_t file, std::uint64_t line);

  const std::vector<WarningRecord>& records() const { return records_; }
  std::uint64_t not_kept() const { return not_kept_; }

 private:
  std::vector<WarningRecord> records_;
  std::uint64_t not_kept_ = 0;
};

/// Causes before what follows from them; within a kind the earliest first, those without a time last and as they were
/// read.
std::vector<const WarningRecord*> causes_first(const WarningBook& book);

}  // namespace busbar
