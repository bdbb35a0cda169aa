#include "common/base/read_file.h"

#include "common/base/error.h"
#include "common/base/units.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace busbar {

std::string read_file(const std::string& path, const std::string& what, std::uint64_t most_bytes) {
  const auto check_size = [&](std::uint64_t nbytes) {
    if (nbytes <= most_bytes) return;
    throw Error(ExitCode::bad_config,
                fmt::format("cannot read {} '{}': it has more than {}", what, path, format_bytes(most_bytes)));
  };
  std::error_code unknown;  // of a pipe
  const std::uintmax_t nbytes = std::filesystem::file_size(path, unknown);
  if (!unknown) check_size(nbytes);
  std::ifstream in(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> piece;
  while (in) {
    in.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    check_size(text.size());
  }
  if (!in.eof() || in.bad()) throw Error(ExitCode::bad_config, fmt::format("cannot read {} '{}'", what, path));
  return text;
}

}  // namespace busbar
