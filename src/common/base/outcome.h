#pragma once

#include "common/base/enum_words.h"

#include <algorithm>
#include <cstdint>

namespace busbar {

/// How a check or a criterion ended, from the best for the whole to the worst.
enum class Outcome : std::uint8_t {
  skip,  ///< could not be judged, for a reason that is printed; not a pass
  pass,
  warn,
  inconclusive,  ///< too noisy to tell; never counts as a pass
  fail,
};

constexpr EnumWords<5> words_of(Outcome) { return {"SKIP", "PASS", "WARN", "INCONCLUSIVE", "FAIL"}; }
static_assert(word(words_of(Outcome::fail), Outcome::fail) == "FAIL");

constexpr const char* name(Outcome outcome) { return word(words_of(outcome), outcome).data(); }

constexpr Outcome worse(Outcome a, Outcome b) { return std::max(a, b); }

}  // namespace busbar
