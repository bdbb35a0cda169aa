#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

namespace busbar {

/// Reads lines from an open file in large blocks. By read() and not by mmap: a mapped file that somebody truncates
/// meanwhile kills its reader. Memory is bounded: lines are cut at kMaxLine.
class LineReader {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{64} << 10;

  /// `limit`: bytes to read at most. Does not close the file.
  LineReader(int fd, std::uint64_t limit);

  /// What the file begins with, up to a block of it.
  std::string_view beginning();

  /// The next line without its '\n', and without NULs in front of it (what a truncated file is filled up with); `line`
  /// lives until the next call. False: there is none.
  bool next(std::string_view& line) {
    for (;;) {
      while (begin_ < end_ && !skipping_ && buffer_[begin_] == '\0') ++begin_;
      const char* const start = buffer_.get() + begin_;
      const std::size_t left = end_ - begin_;
      const void* const hit = left == 0 ? nullptr : std::memchr(start, '\n', left);
      const std::size_t length =
          hit == nullptr ? left : static_cast<std::size_t>(static_cast<const char*>(hit) - start);
      if (hit == nullptr && (skipping_ || left <= kMaxLine)) {
        if (skipping_) begin_ = end_;
        if (fill()) continue;
        line = std::string_view(buffer_.get() + begin_, end_ - begin_);
        begin_ = end_;
        return !line.empty();
      }
      begin_ += length + (hit == nullptr ? 0 : 1);
      const bool rest_of_cut = skipping_;
      skipping_ = hit == nullptr;
      if (rest_of_cut) continue;
      line = std::string_view(start, length < kMaxLine ? length : kMaxLine);
      cut_lines_ += length > kMaxLine ? 1 : 0;
      return true;
    }
  }

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t cut_lines() const { return cut_lines_; }
  int error() const { return error_; }  ///< errno of the read that failed; 0: none did

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 20;

  /// Moves what is left to the front and reads on; false: nothing came.
  bool fill();

  int fd_;
  std::uint64_t limit_;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t cut_lines_ = 0;
  int error_ = 0;
  bool skipping_ = false;  ///< behind the cut of a line
};

}  // namespace busbar
