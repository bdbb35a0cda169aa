#pragma once

#include "common/machine/nvml.h"

namespace fake_nvml {

inline int index_of(busbar::NvmlDevice device) { return static_cast<int>(reinterpret_cast<std::size_t>(device)) - 1; }

/// Whether the real NCCL runs over these GPUs (FAKE_GPUS is set): no fabric, and links only where they are asked for.
bool serves_nccl();
/// Answers for a link's state.
void give_link_field(busbar::nvml::FieldValue& field);

}  // namespace fake_nvml
