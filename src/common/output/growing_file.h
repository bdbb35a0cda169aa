#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace busbar {

/// A text that is longer each time it is written, in a file that holds a whole text at every moment, also after a
/// SIGKILL at any of them. One write() in place would not do: a kill ends it between two pages. So there are two
/// copies, and the one that nobody sees (`path`.tmp) gets what it lacks before the two change names: each time costs
/// what was added since the last time but one, whatever the length. A reader that takes longer than the time between
/// two calls may still meet a mixture.
class GrowingFile {
 public:
  explicit GrowingFile(std::string path) : path_(std::move(path)) {}
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  /// Leaves `path` alone.
  ~GrowingFile();

  /// Makes `head` + `list` + `tail` the file's text. `head` must be the same each time, and `list` begin with that of
  /// the last time. Returns 0 or errno; then the old text stands.
  int write(std::string_view head, std::string_view list, std::string_view tail);

 private:
  struct Copy {
    int fd = -1;
    bool begun = false;      // has the head
    std::size_t listed = 0;  // [bytes] of the list that it has
  };

  int open_copies();
  int change_names();

  std::string path_;
  Copy shown_, hidden_;
};

}  // namespace busbar
