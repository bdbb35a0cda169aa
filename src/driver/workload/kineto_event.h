#pragma once

#include "common/base/read_file.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace busbar {

/// Categories of a Kineto trace that matter.
enum class KinetoCategory : std::uint8_t { unknown, op, annotation, kernel, copy, other };

inline constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::min();

/// An event of a Kineto trace, as far as it matters here. Absent numbers are -1.
struct KinetoEvent {
  KinetoCategory category = KinetoCategory::unknown;
  bool complete = true;  ///< phase X
  std::string name;
  std::int64_t tid = -1;
  std::int64_t begin_ns = kNoTime, time_ns = kNoTime;
  // Its args.
  std::int64_t external_id = -1, device = -1, in_elements = -1, out_elements = -1, group_size = -1, rank = -1;
  std::string collective, dtype, group, description, ranks;
  bool unequal = false;                ///< sizes per rank are given
  std::vector<std::int64_t> elements;  ///< of each input; -1: no tensor
  std::vector<std::string> types;      ///< of each input
};

/// What a Kineto trace holds besides its events.
struct KinetoTrace {
  std::uint64_t nbytes = 0;
  std::string trouble;      ///< why it was not read to its end; empty: it was
  bool has_events = false;  ///< a list of them: else it is no such trace
  /// What it says of its job ("distributedInfo"), and of each of its groups ("pg_config"): texts and numbers by key.
  using Facts = std::map<std::string, std::string>;
  Facts job;
  std::vector<Facts> groups;
};

/// Splits a Kineto trace into its events; those that cannot matter are passed over.
KinetoTrace read_kineto_events(const NextBytes& next, const std::function<void(KinetoEvent&)>& on_event);

}  // namespace busbar
