#pragma once

#include "driver/compare/compare_job.h"

namespace busbar {

/// The whole of `busbar compare`, from its arguments to the exit code. Never throws.
int run_compare(int argc, char** argv, const WrapVariant& wrap);

}  // namespace busbar
