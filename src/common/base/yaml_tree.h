#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A value in a YAML document.
struct YamlTree {
  enum class Kind : std::uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  int line = 1;  ///< from 1
  std::string scalar;
  std::vector<YamlTree> items;  ///< of a list; of a map, keys and values in turn
};

/// The one document in `text`. Throws Error(bad_config) "FILE:LINE: WHAT" for anything else, for a document whose
/// aliases repeat more than it has bytes, and if this build has no yaml-cpp. `own`: a file of the program's that a unit
/// test has checked to be one document; takes half of the time.
YamlTree parse_yaml(const std::string& file, std::string_view text, bool own);

}  // namespace busbar
