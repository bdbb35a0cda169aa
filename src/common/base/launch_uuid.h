#pragma once

#include <string>

namespace busbar {

/// 128 bits from the system's random source as 32 hexadecimal digits: no two launches share them.
std::string make_launch_uuid();

}  // namespace busbar
