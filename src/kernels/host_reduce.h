#pragma once

#include "collectives/dtype.h"
#include "collectives/op.h"

#include <cstddef>

namespace busbar {

/// inout[i] = in[i] op inout[i] for `count` elements. The pointers may be unaligned, and must not overlap.
using ReduceFn = void (*)(const void* in, void* inout, std::size_t count);

/// The reduction that MPI lacks: sum, prod, max and min of half, bfloat16, f8e4m3 and f8e5m2; null for anything else.
/// The fastest version that this CPU has; every version gives the same bits:
/// - sum and prod are computed in float and rounded once, to nearest, ties to even. (The one exception to "once":
///   bfloat16 products below 2^-126, which float itself has already rounded.)
/// - half, bfloat16 and f8e5m2 overflow to infinity; f8e4m3 has none and saturates to +-448, as NCCL's does.
/// - sum and prod of a NaN are 0x7fff (0x7f in 8 bits), the NaN that CUDA makes.
/// - max and min of a NaN and a number are the number; -0 counts as less than +0, as with CUDA's fmaxf and therefore
///   NCCL. Of two NaNs some NaN remains.
ReduceFn narrow_reduction(DType dtype, Op op);

/// The same in plain C++, for CPUs without AVX2 and F16C and as the reference for the vectorized version.
ReduceFn portable_narrow_reduction(DType dtype, Op op);

}  // namespace busbar
