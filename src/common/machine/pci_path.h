#pragma once

#include "common/machine/machine_facts.h"

#include <string_view>

namespace busbar {

/// How two functions reach each other, in NCCL's and nvidia-smi's words, the nearest first.
enum class PciPath : std::uint8_t {
  pix,  ///< one switch, or less
  pxb,  ///< several switches
  phb,  ///< through the CPU of one NUMA node
  sys,  ///< from one NUMA node to another
};

constexpr std::string_view name(PciPath path) {
  constexpr std::string_view kNames[] = {"PIX", "PXB", "PHB", "SYS"};
  return kNames[static_cast<int>(path)];
}

/// From their places in sysfs' tree of devices. Pure.
PciPath pci_path(const PciFunction& a, const PciFunction& b);

}  // namespace busbar
