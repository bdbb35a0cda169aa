#pragma once

#include "common/watch/hang_evidence.h"

#include <chrono>
#include <string>
#include <string_view>

namespace busbar {

/// Asks NCCL's RAS service on this host (NCCL_RAS_ADDR, else localhost:28028) for its status, JSON where it has it.
/// The text as it came; throws Error where nobody answers within `limit`.
std::string ask_ras(std::chrono::milliseconds limit);

/// What RAS's text or JSON says; `earlier` is an answer from some seconds before, or empty: counters that differ prove
/// nothing unless both answers agree. Never throws, whatever the text.
RasEvidence read_ras(std::string_view text, std::string_view earlier);

}  // namespace busbar
