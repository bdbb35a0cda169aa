#pragma once

#include <string>

namespace busbar {

/// Now as "YYYY-MM-DD HH:MM:SS" in local time.
std::string local_timestamp();

}  // namespace busbar
