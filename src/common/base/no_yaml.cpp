#include "common/base/error.h"
#include "common/base/yaml_node.h"

#include <fmt/format.h>

namespace busbar {

// In place of yaml_tree.cpp, in a build without yaml-cpp.
YamlTree parse_yaml(const std::string& file, std::string_view, bool) {
  throw_not_possible(fmt::format(
      "{}: this build has no yaml-cpp, which reads such files: install its headers and configure again", file));
}

}  // namespace busbar
