#pragma once

#include "common/record/accept_result.h"
#include "common/record/node_report.h"

#include <string>
#include <vector>

namespace busbar {

/// What `doctor` found as a result whose criteria are its findings, for the files that accept writes too (--junit,
/// --csv, --markdown, --prometheus, --history). Times, command and library are the caller's to fill in.
AcceptResult result_of_doctor(const std::vector<NodeReport>& nodes, const DoctorVerdict& verdict);

/// The same for `locate`: a criterion per culprit, or one that says that none was found. `units`: their
/// names.
AcceptResult result_of_locate(UnitKind unit, const std::vector<std::string>& units, const LocateVerdict& verdict,
                              const std::vector<PairCell>& matrix);

}  // namespace busbar
