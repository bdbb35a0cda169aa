#pragma once

#include "common/machine/probe.h"
#include "common/record/node_report.h"

namespace busbar {

/// This node alone, without MPI: what `doctor --local` looks at. Seconds at most.
NodeReport look_at_this_node();

/// The same for a machine that a probe shows, GPUs left out: they are not in files.
NodeReport look_at_node(const Probe& probe);

}  // namespace busbar
