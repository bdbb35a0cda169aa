#pragma once

#include "common/watch/hang_evidence.h"

#include <string>
#include <string_view>

namespace busbar {

/// A host's evidence as one message, at most kMaxReply bytes. Control characters in texts become spaces, texts are cut
/// at 1000 bytes, numbers that are none become 0 (net_bytes_per_s -1); where the whole would be too long, the finished
/// steps are left out, then ranks from the end on.
std::string encode(const HostEvidence& host);

/// Back again. Throws Error(internal) on anything else than what encode() makes.
HostEvidence decode_host(std::string_view message);

}  // namespace busbar
