#pragma once

#include <string_view>

namespace busbar {

/// Timestamps as docker, Kubernetes and syslog put them in front of lines, "2026-05-05T06:16:47.123Z"; empty: none.
std::string_view find_iso_timestamp(std::string_view text);

/// Whether a text holds "06:16:47", which is in every format of a time that tells seconds; "[node17:33]" is a
/// launcher's.
bool has_clock(std::string_view text);

}  // namespace busbar
