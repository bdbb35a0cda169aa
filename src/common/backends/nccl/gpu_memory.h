#pragma once

#include "common/backends/backend.h"

#include <cstddef>

namespace busbar {

/// What one of `sharers` ranks on a GPU may use of its memory, from what cudaMemGetInfo says once the communicator
/// exists.
Backend::MemoryLimit gpu_memory_limit(std::size_t free_bytes, std::size_t total_bytes, int sharers);

}  // namespace busbar
