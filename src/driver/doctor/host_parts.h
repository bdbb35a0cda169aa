#pragma once

#include "driver/doctor/checks.h"

#include <cstdint>

namespace busbar {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// The parts of check_host, one file each. Pure in the probe.

void check_limits(const Probe& probe, Rows& rows);         ///< memlock, open files, stack
void check_shared_memory(const Probe& probe, Rows& rows);  ///< /dev/shm, what jobs left there, who removes it
void check_memory(const Probe& probe, Rows& rows);         ///< installed, swap in use
void check_disks(const Probe& probe, Rows& rows);          ///< /tmp and home
void check_cpus(const Probe& probe, Rows& rows);           ///< model, governor, NUMA balancing, clock source, load
void check_isolation(const Probe& probe, Rows& rows);      ///< container, capabilities, IOMMU, ACS

}  // namespace busbar
