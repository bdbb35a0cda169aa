#include "common/base/program_beside.h"

#include <string>

namespace busbar {

namespace fs = std::filesystem;

fs::path program_beside(const fs::path& self, std::string_view name) {
  const std::string own = self.filename().string();
  std::string suffix;
  for (const std::string_view known : {std::string_view("busbar-ranks"), std::string_view("busbar")}) {
    if (!own.starts_with(known)) continue;
    suffix = own.substr(known.size());
    break;
  }
  return self.parent_path() / (std::string(name) + suffix);
}

fs::path program_beside(std::string_view name) {
  std::error_code unknown;
  return program_beside(fs::read_symlink("/proc/self/exe", unknown), name);
}

}  // namespace busbar
