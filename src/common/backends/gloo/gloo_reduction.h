#pragma once

#include "collectives/dtype.h"
#include "collectives/op.h"
#include "common/backends/gloo/gloo_module.h"

namespace busbar {

/// Sum, prod, max and min of every dtype, which Gloo takes from its caller; nulls for avg and mulsum. Narrow floats as
/// narrow_reduction has them (kernels/host_reduce.h); integers wrap.
GlooReduction gloo_reduction(DType dtype, Op op);

}  // namespace busbar
