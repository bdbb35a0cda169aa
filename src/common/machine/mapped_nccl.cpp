#include "common/machine/mapped_nccl.h"

#include "common/base/text.h"
#include "common/machine/machine_facts.h"

#include <fmt/format.h>

#include <fstream>
#include <set>
#include <string>

namespace busbar {
namespace {

/// The text before "2.28.9"; nothing else counts.
constexpr std::string_view kMark = "NCCL version ";

/// The library contains "NCCL version 2.28.9+cuda13.0" and other strings that begin alike.
int version_in(std::string_view bytes) {
  for (std::size_t at = bytes.find(kMark); at != std::string_view::npos; at = bytes.find(kMark, at + 1)) {
    const int version = nccl_version_number(bytes.substr(at + kMark.size(), 16));
    if (version > 0) return version;
  }
  return 0;
}

}  // namespace

int nccl_version_number(std::string_view text) {
  int number = 0;
  for (const int scale : {10000, 100, 1}) {
    const int part = leading_number<int>(text, 10, &text).value_or(-1);
    if (part < 0 || part > 99) return 0;
    number += scale * part;
    if (scale == 1) break;
    if (!text.starts_with('.')) return 0;
    text.remove_prefix(1);
  }
  return number;
}

int nccl_version_of_file(std::string_view path) {
  constexpr std::string_view kName = "libnccl.so.";
  const std::size_t name = path.rfind('/') + 1;
  if (path.substr(name).starts_with(kName))
    if (const int version = nccl_version_number(path.substr(name + kName.size())); version > 0) return version;
  std::ifstream file{std::string(path), std::ios::binary};
  constexpr std::size_t kPiece = 1 << 20, kOverlap = 64;  // to find a string across two pieces
  std::string bytes(kOverlap + kPiece, '\0');
  while (file) {
    file.read(bytes.data() + kOverlap, kPiece);
    const auto got = static_cast<std::size_t>(file.gcount());
    if (const int version = version_in(std::string_view(bytes).substr(0, kOverlap + got)); version > 0) return version;
    bytes.replace(0, kOverlap, bytes, got, kOverlap);
  }
  return 0;
}

std::optional<int> mapped_nccl_version(std::int64_t pid) {
  const auto maps = Probe().read(fmt::format("/proc/{}/maps", pid), kLongFile);
  if (!maps) return 0;
  const std::set<std::string> files = mapped_files(*maps, "libnccl.so");
  if (files.empty()) return std::nullopt;
  // Through the process's own root: it may run in a container. A file that was deleted meanwhile cannot be opened.
  for (const std::string& file : files) {
    const int version = nccl_version_of_file(fmt::format("/proc/{}/root{}", pid, file));
    if (version > 0) return version;
  }
  return 0;
}

}  // namespace busbar
