#pragma once

#include <cstdint>
#include <string>

namespace busbar {

/// This start of this machine, from /proc/sys/kernel/random/boot_id; 0 if that cannot be read.
std::uint64_t this_boot() noexcept;

/// Equal for processes that see one another's shared memory: one start of one machine, one /dev/shm.
std::string this_machine();

/// The host's name with its domain.
std::string full_host_name();

}  // namespace busbar
