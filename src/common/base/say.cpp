#include "common/base/say.h"

#include "common/base/text.h"

#include <cstdio>

namespace busbar {

void write_stderr(std::string_view text) {
  std::fputs(without_controls(text, true).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace busbar
