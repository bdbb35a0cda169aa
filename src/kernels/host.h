#pragma once

#include "collectives/dtype.h"
#include "collectives/op.h"
#include "kernels/pattern.h"

#include <cstddef>
#include <cstdint>

namespace busbar {

/// What one comparison found. Indices are elements of the receive part; `first` and `last` count only when wrong > 0.
struct CheckResult {
  std::uint64_t wrong = 0;
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t last = 0;

  void merge(const CheckResult& other) {
    wrong += other.wrong;
    if (other.wrong > 0) {
      first = other.first < first ? other.first : first;
      last = other.last > last ? other.last : last;
    }
  }
};

/// Writes elements [first, first + count) of rank's send data to dst, which may be unaligned.
void fill(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst);

/// Writes `count` times the op's neutral element (zero bits if nothing is reduced): data that does not change however
/// often it is reduced in place.
void fill_neutral(const Pattern& pattern, std::size_t count, void* dst);

/// Compares recv[block.at, block.at + block.count) with what the block says. `recv` is element 0 of the receive part.
CheckResult check(const Pattern& pattern, const Block& block, const void* recv);

/// The bits of element `index` of the array at `data`.
std::uint64_t load_bits(const void* data, std::size_t index, std::size_t width);

/// Whether `got` counts as right if `want` is expected: bit for bit, or within the tolerance.
bool counts_as(const Pattern& pattern, std::uint64_t got, std::uint64_t want);

/// How many of the nbytes bytes at data differ from `byte`, and the first and last of them [bytes].
CheckResult check_bytes(const void* data, std::size_t nbytes, unsigned char byte);

/// One element's bits: rank's own (rank >= 0) or the reduction over all (kReduction). Slow; for messages and diagnosis.
std::uint64_t element_bits(const Pattern& pattern, int rank, std::size_t index);

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

// The CUDA twins (device.cu): same definition (element.h), same results bit for bit. Declared without cuda_runtime.h so
// that only .cu files and the NCCL backend need it. Pointers are device memory of the current device; the work is
// enqueued on `stream` (a cudaStream_t) and nothing waits. Each returns a cudaError_t as int (0: launched).
int fill_on_device(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst, void* stream);

int fill_neutral_on_device(const Pattern& pattern, std::size_t count, void* dst, void* stream);

/// Adds what the comparison of `nblocks` blocks finds to *result (device memory; reset_check_on_device first). `blocks`
/// is device memory that stays valid until the stream has passed.
int check_on_device(const Pattern& pattern, const Block* blocks, std::size_t nblocks, const void* recv,
                    CheckResult* result, void* stream);

int reset_check_on_device(CheckResult* result, void* stream);

/// Loads every kernel of that file now, so that none is loaded lazily while a collective is pending.
int preload_device_kernels();

}  // namespace busbar
