#pragma once

#include "common/measure/result.h"
#include "common/record/envelope.h"

#include <string_view>

namespace busbar {

/// The envelope of a job's document.
Envelope envelope_of(std::string_view document, const RunInfo& info);

}  // namespace busbar
