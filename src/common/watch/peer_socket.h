#pragma once

#include "common/machine/socket_address.h"

#include <sys/types.h>

#include <cstdint>

namespace busbar {

/// What this process's watcher has sent and received so far: not the job's own traffic. Any thread.
std::uint64_t watcher_bytes() noexcept;
/// Adds what send or recv returned.
void count_watcher_bytes(ssize_t n) noexcept;

/// TCP, non-blocking, closed by exec, without Nagle's delay. Not open where the system has no more; errno tells.
Socket make_tcp_socket(int family) noexcept;

}  // namespace busbar
