#pragma once

#include "common/record/history_run.h"

#include <string_view>

namespace busbar {

/// A result of accept, locate or doctor; `tool`: which.
HistoryRun history_of_accept(const AcceptResult& result, std::string_view tool);

}  // namespace busbar
