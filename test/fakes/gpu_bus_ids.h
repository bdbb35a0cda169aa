#pragma once

#include <array>

namespace fake_gpu {

/// The PCI bus of a GPU, which CUDA's and NVML's stand-ins must agree on: a DGX H100's, then free ones.
inline int bus_number(int gpu) {
  constexpr std::array kBuses{0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB};
  return gpu < static_cast<int>(kBuses.size()) ? kBuses[static_cast<std::size_t>(gpu)] : 0x40 + gpu;
}

}  // namespace fake_gpu
