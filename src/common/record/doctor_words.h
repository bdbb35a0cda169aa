#pragma once

#include "common/base/outcome.h"

#include <array>
#include <string_view>

namespace busbar {

/// How doctor writes an outcome: a check that passed is "OK".
inline constexpr std::array<std::string_view, 5> kDoctorWords = {"SKIP", "OK", "WARN", "INCONCLUSIVE", "FAIL"};

constexpr std::string_view doctor_word(Outcome outcome) { return kDoctorWords[static_cast<std::size_t>(outcome)]; }

}  // namespace busbar
