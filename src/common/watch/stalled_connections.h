#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace busbar {

/// Addresses to which this user's open TCP connections have sent the same data twice or more without an
/// acknowledgement: what the job itself suffers where new connections, with smaller segments, come through. A process
/// that merely does not read is none of them: its host acknowledges.
std::set<std::string> stalled_addresses(const std::filesystem::path& root = "/");

/// The same of the text of /proc/net/tcp or tcp6 (Linux, Documentation/networking/proc_net_tcp.rst).
std::set<std::string> parse_stalled(std::string_view text, std::uint32_t uid);

}  // namespace busbar
