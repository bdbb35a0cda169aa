#pragma once

#include "common/record/stack_tree.h"
#include "driver/readers/log_line.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Reads lines from an open file in large blocks. By read() and not by mmap: a mapped file that another process
/// truncates meanwhile kills its reader. Memory is bounded: lines are cut at kMaxLine.
class LineReader {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{64} << 10;

  /// `limit`: bytes to read at most. Does not close the file.
  LineReader(int fd, std::uint64_t limit);

  /// What the file begins with, up to a block of it.
  std::string_view beginning();

  /// The next line without its '\n', or the '\r' that programs which show their progress end lines with, and without
  /// NULs in front of it (what a truncated file is filled up with); `line` lives until the next call. False: there is
  /// none.
  bool next(std::string_view& line) {
    for (;;) {
      while (begin_ < end_ && !skipping_ && buffer_[begin_] == '\0') ++begin_;
      const char* const start = buffer_.get() + begin_;
      const std::size_t left = end_ - begin_;
      // Where only '\r' ends lines, a search for each of them would read the whole block.
      if (feed_ == nullptr || feed_ < start) feed_ = static_cast<const char*>(std::memchr(start, '\n', left));
      if (feed_ == nullptr) feed_ = start + left;
      const char* hit = feed_ == start + left ? nullptr : feed_;
      std::size_t length = static_cast<std::size_t>(feed_ - start);
      // One before a '\n', or before what is not yet read, ends none.
      const void* const bare = carriages_ && length > 1 ? std::memchr(start, '\r', length - 1) : nullptr;
      if (bare != nullptr) length = static_cast<std::size_t>((hit = static_cast<const char*>(bare)) - start);
      if (hit == nullptr && (skipping_ || left <= kMaxLine)) {
        if (skipping_) begin_ = end_;
        if (fill()) continue;
        line = std::string_view(buffer_.get() + begin_, end_ - begin_);
        begin_ = end_;
        number_ += fresh_ && !line.empty() ? 1 : 0;
        return !line.empty();
      }
      begin_ += length + (hit == nullptr ? 0 : 1);
      const bool rest_of_cut = skipping_;
      skipping_ = hit == nullptr;
      number_ += fresh_ ? 1 : 0;
      fresh_ = hit != nullptr && *hit == '\n';
      if (rest_of_cut) continue;
      line = std::string_view(start, length < kMaxLine ? length : kMaxLine);
      return true;
    }
  }

  std::uint64_t number() const { return number_; }  ///< of the line, as editors count: by '\n' alone
  /// Whether an escape character was read so far: lines may hold colors.
  bool may_have_colours() const { return escapes_; }
  std::uint64_t bytes() const { return bytes_; }
  int error() const { return error_; }  ///< errno of the read that failed; 0: none did

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 20;

  /// Moves what is left to the front and reads on; false: nothing came.
  bool fill();

  int fd_;
  std::uint64_t limit_;
  std::unique_ptr<char[]> buffer_;
  const char* feed_ = nullptr;  ///< the next '\n', or the end of what was read; null: not searched yet
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t bytes_ = 0;
  int error_ = 0;
  std::uint64_t number_ = 0;
  bool fresh_ = true;  ///< at the beginning of a numbered line
  bool escapes_ = false;
  bool carriages_ = false;
  bool skipping_ = false;  ///< after the cut of a line
};

/// Where the main thread of a process was.
struct ProcessStack {
  std::string pid;                  ///< empty: unknown
  StackMember process;              ///< labeled "pid 42 in FILE" if the rank is not known
  std::vector<std::string> frames;  ///< the outermost call first: "wait (threading.py:359)"
};

/// A file that was read, or why it was not.
struct LogFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::uint64_t lines = 0;
  std::uint64_t nccl_lines = 0;
  std::uint64_t unknown_lines = 0;  ///< of NCCL, but not understood
  std::deque<ProcessStack> stacks;
  std::string trouble;  ///< "binary", "empty", "Permission denied"; no text: read whole
};

/// The files that paths name, each once: files themselves ("-": standard input), and the regular files in folders,
/// however deep, in order of name. A folder that cannot be listed is itself in the list. Throws Error if a path does
/// not exist.
std::vector<std::filesystem::path> find_log_files(std::span<const std::filesystem::path> paths);

/// Reads a file ("-": standard input) in pieces (memory stays bounded whatever its size or its lines' lengths; pipes
/// and devices are not read) and hands over each line's meaning with its number, from 1. The texts in it live until
/// `on_line` returns. A file that is still being written is read as far as it was at the start. Never throws for what
/// is in the file; what `on_line` throws ends the reading.
LogFile read_log_file(const std::filesystem::path& path,
                      const std::function<void(const LogLine& line, std::uint64_t number)>& on_line);

}  // namespace busbar
