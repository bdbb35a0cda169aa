#pragma once

#include "common/backends/backend.h"

#include <cstdint>
#include <vector>

namespace busbar {

/// How data go wrong, for detectors to be seen to find it.
enum class DataFault : std::uint8_t {
  flip,     ///< one bit of the result
  drop,     ///< the rank sends nothing: the op's neutral element, or bytes that nobody sent
  doubled,  ///< the rank's contribution counts twice (sum, prod)
  shift,    ///< the result lies one element too far
  overrun,  ///< 16 bytes after the receive buffer are written
};

/// Spoils what the local rank is about to send; nothing for faults of the result. Before the operation is enqueued.
void spoil_contribution(DataFault fault, Backend& backend, const Pattern& pattern, const Operation& op,
                        const Buffers& buffers, int local);

/// Spoils what the local rank received; nothing for faults of the contribution. After the operation is complete.
void spoil_result(DataFault fault, Backend& backend, const Operation& op, const Buffers& buffers, int local);

/// The local rank's result, and the same written.
std::vector<std::byte> read_result(Backend& backend, const Operation& op, const Buffers& buffers, int local);
void write_result(Backend& backend, const std::vector<std::byte>& bytes, const Buffers& buffers, int local);

}  // namespace busbar
