#pragma once

// The CUDA twins of host.h: same definition (element.h), same results bit for bit. Declared without cuda_runtime.h so
// that only .cu files and the NCCL backend need it. Pointers are device memory of the current device; the work is
// enqueued on `stream` (a cudaStream_t) and nothing waits. Each returns a cudaError_t as int (0: launched).

#include "kernels/host.h"

#include <cstddef>

namespace busbar {

int fill_on_device(const Pattern& pattern, int rank, std::size_t first, std::size_t count, void* dst, void* stream);

int fill_neutral_on_device(const Pattern& pattern, std::size_t count, void* dst, void* stream);

/// Adds what the comparison of `nblocks` blocks finds to *result (device memory; reset_check_on_device first). `blocks`
/// is device memory that stays valid until the stream has passed.
int check_on_device(const Pattern& pattern, const Block* blocks, std::size_t nblocks, const void* recv,
                    CheckResult* result, void* stream);

int reset_check_on_device(CheckResult* result, void* stream);

/// Loads every kernel of this file now, so that none is loaded lazily while a collective is pending.
int preload_device_kernels();

}  // namespace busbar
