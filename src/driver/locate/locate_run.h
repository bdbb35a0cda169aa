#pragma once

#include "common/backends/backend.h"
#include "common/base/config.h"
#include "common/job/job.h"
#include "driver/locate/locate_result.h"

#include <functional>
#include <optional>
#include <string>

namespace busbar {

/// What is under way, for a person's eyes; called on process 0. May be null.
using TellLocate = std::function<void(const std::string& text)>;

/// Why a search cannot be made with this backend; nothing if it can. The same on all processes.
std::optional<std::string> why_no_search(const Backend& baseline);

/// Searches for the slow host, link, direction or rank, from the choice of the message to the verdict. `baseline`: a
/// communicator of all ranks, which owns the memory.
/// Process 0 decides and tells the others round by round; complete on it, the outcome the same everywhere. Throws
/// AgreedError where all processes fail alike; anything else must end the job. Collective.
LocateRun run_search(Job& job, Backend& baseline, const Config& config, const LocateOptions& options,
                     const TellLocate& tell);

}  // namespace busbar
