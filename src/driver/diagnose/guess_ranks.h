#pragma once

#include "driver/diagnose/job_cast.h"

#include <span>

namespace busbar {

/// Fills in ranks that NCCL's own lines do not tell, from the launcher's decorations, the names of files and the
/// numbers of devices, and notes which way was taken. Needs the cast's speakers, hosts and the ranks that are told.
void guess_ranks(const JobBook& book, std::span<const LogFile> files, JobCast& cast);

}  // namespace busbar
