#pragma once

#include "common/record/node_report.h"

#include <vector>

namespace busbar {

/// What must agree over the nodes (and over the ranks of one node) and does not, worst first. Pure.
/// A node that lacks what others have counts as "none", which is a warning (but for settings of the environment),
/// unless it says with a SKIP row of that check, or of its family ("rdma" for "rdma.rate"), that it could not look, or
/// with a finding about that subject that it is sick. Not told again: odd values that are not OK by themselves.
/// Subjects that differ alike stand in one.
std::vector<DoctorFinding::Unequal> find_unequal(const std::vector<NodeReport>& nodes);

}  // namespace busbar
