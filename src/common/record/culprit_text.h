#pragma once

#include "common/record/culprit.h"

#include <span>
#include <string>
#include <string_view>

namespace busbar {

/// Who and why, with the counts: "node31: 4 of 4 partners slow (0.11 +- 0.01 of the median), 3 of 3 confirmations,
/// transmit side". `names`: of the units; one without is "unit 5".
std::string describe(const Culprit& culprit, std::span<const std::string> names);

/// The first part of it: "node31", "node3 - node7", "node3 or node7".
std::string who(const Culprit& culprit, std::span<const std::string> names);

/// The verdict in a line: "FAIL: node31: ..." of the worst culprit and how many more, "PASS: 64 units within 0.90 of
/// the median (8 rounds, noise 1.2 %)", or the reason.
std::string headline(const LocateFinding& finding, std::span<const std::string> names);

/// Such a line for where the outcome stands beside it already: without "FAIL: ".
std::string_view without_outcome(std::string_view headline, Outcome outcome);

}  // namespace busbar
