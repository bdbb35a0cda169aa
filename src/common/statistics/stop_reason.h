#pragma once

#include "common/base/enum_words.h"

#include <cstdint>

namespace busbar {

/// Why a cell (one placement of one row) of the statistical mode was measured no further.
enum class StopReason : std::uint8_t {
  ci,     ///< the interval is as narrow as --rel-ci asks
  time,   ///< --cell-time or --max-time was over first
  noisy,  ///< --epochs were used up, or more time within the limits would not have helped
};

inline constexpr std::array<std::string_view, 3> kStopWords{"ci", "time", "noisy"};
static_assert(kStopWords[static_cast<std::size_t>(StopReason::noisy)] == "noisy");

constexpr std::string_view name(StopReason reason) { return word(kStopWords, reason); }

}  // namespace busbar
