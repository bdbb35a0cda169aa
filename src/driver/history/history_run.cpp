#include "driver/history/history_run.h"

#include <fmt/format.h>

namespace busbar {

std::string HistoryCell::key() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", stage, cell, scope, collective, dtype, op, root, nbytes,
                     in_place);
}

}  // namespace busbar
