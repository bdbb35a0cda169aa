#pragma once

#include "common/base/read_file.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What editors and shells of Windows begin UTF-8 with, also in the middle of files that were joined.
inline constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

/// [bytes] that show what a file is.
inline constexpr std::size_t kHead = 16 << 10;

/// A file to read: one that was named, or what was unpacked or decoded, which is in memory.
struct InputFile {
  std::filesystem::path path;         ///< for people; of a member ARCHIVE/MEMBER
  std::filesystem::path opens;        ///< what to open; empty: nothing
  std::string trouble;                ///< why it cannot be read, or not to its end
  std::shared_ptr<std::FILE> memory;  ///< owns `opens` if it is in memory
};

struct Piece {
  std::string text;
  std::uint64_t size = 0;  ///< of the whole file
};

/// A regular file's first `most` bytes, and its size; empty if it is not a regular file or cannot be read. Only to open
/// a pipe without a writer would block.
Piece read_piece(const std::filesystem::path& path, std::uint64_t most);

/// The files, with what is in them in the place of archives and compressed files (tar, zip, 7z; gz, zst, xz, bz2, lz4;
/// nested too). Nothing is written to a disk. `trouble` reports what is encrypted, damaged or grows too much.
/// `most_bytes`: of all together; 0: half of the memory that is free. Never throws for what is in a file.
std::vector<InputFile> unpacked(std::span<const std::filesystem::path> files, std::uint64_t most_bytes = 0);

/// The bytes of a regular file, block by block, unpacked on the way if it is compressed: memory does not
/// grow with it. `trouble` gets why they end too early, unless it has a reason already, and must outlive what
/// is returned.
NextBytes blocks_of(const InputFile& file, std::string& trouble);

/// Whether the file is an archive of others (tar, zip, 7z), also a compressed one.
bool is_archive(const InputFile& file);

/// The messages in JSON, each with a line break; empty if there are none. From a cut or damaged list those before the
/// damage, which `trouble` reports.
std::string lines_in(std::string_view text, std::string& trouble);

/// A file of that name with this text.
InputFile input_in_memory(const std::filesystem::path& path, std::string_view text);

/// The file, or a decoded one: UTF-16 as UTF-8, and of a log that is one JSON document the lines in its messages.
InputFile plain_text(const InputFile& file, bool is_log);

}  // namespace busbar
