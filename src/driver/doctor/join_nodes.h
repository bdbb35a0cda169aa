#pragma once

#include "common/record/node_report.h"

#include <vector>

namespace busbar {

/// The reports of nodes as one: findings that several share stand once, and what must agree over the nodes (and over
/// the ranks of one node) is compared, the worst first. A node that lacks what others have counts as "none", which is a
/// warning (but for settings of the environment), unless it says with a SKIP row of that check, or of its family
/// ("rdma" for "rdma.rate"), that it could not look, or with a finding about that subject that it is sick. Not told
/// again: odd values that are not OK by themselves. Subjects that differ alike stand in one. Pure.
DoctorVerdict join_nodes(const std::vector<NodeReport>& nodes);

/// Several processes of one node as one report: a row that all of them have stands once, without ranks. Each part has
/// one rank; host and time are the first's. Pure.
NodeReport merge_ranks(const std::vector<NodeReport>& parts);

}  // namespace busbar
