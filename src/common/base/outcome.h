#pragma once

#include <algorithm>
#include <cstdint>

namespace busbar {

/// How a check or a criterion ended, from what is best for the whole to what is worst.
enum class Outcome : std::uint8_t {
  skip,  ///< could not be judged, for a reason that is printed; no pass
  pass,
  warn,
  inconclusive,  ///< too noisy to tell; never counts as a pass
  fail,
};

/// "SKIP", "PASS", "WARN", "INCONCLUSIVE", "FAIL".
constexpr const char* name(Outcome outcome) {
  constexpr const char* kNames[] = {"SKIP", "PASS", "WARN", "INCONCLUSIVE", "FAIL"};
  return kNames[static_cast<int>(outcome)];
}

constexpr Outcome worse(Outcome a, Outcome b) { return std::max(a, b); }

}  // namespace busbar
