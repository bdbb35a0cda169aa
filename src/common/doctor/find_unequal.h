#pragma once

#include "common/doctor/node_report.h"

#include <vector>

namespace busbar {

/// What must agree over the nodes (and over the ranks of one node) and does not, worst first. A node that lacks a value
/// which others have is told as "none", unless it says with a SKIP row of that check, or of its family ("ib" for
/// "ib.rate"), that it could not look. Subjects that differ alike stand in one. Pure.
std::vector<DoctorFinding::Unequal> find_unequal(const std::vector<NodeReport>& nodes);

}  // namespace busbar
