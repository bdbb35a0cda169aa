#include "common/base/read_file.h"

#include "common/base/error.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace busbar {

std::string read_file(const std::string& path, const std::string& what) {
  std::ifstream in(path);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in) throw Error(ExitCode::bad_config, fmt::format("cannot read {} '{}'", what, path));
  return text.str();
}

}  // namespace busbar
