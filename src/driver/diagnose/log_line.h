#pragma once

#include "driver/diagnose/log_fact.h"

#include <string_view>

namespace busbar {

/// What a line says, of NCCL 2.3 to 2.30, of PyTorch's watchdog or of a kernel, with any launcher's decoration in front
/// of it. `line`: without its end. Lines that are cut or mixed up become OtherLine; never throws, never allocates.
LogLine parse_log_line(std::string_view line);

}  // namespace busbar
