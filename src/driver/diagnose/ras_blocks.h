#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Finds answers of NCCL's RAS service among other lines: people print them into their logs, whole or in excerpts, as
/// text or JSON, several in turn, and others print in between.
class RasBlocks {
 public:
  static constexpr std::size_t kMost = 64;  ///< answers: the newest are kept

  /// Takes the next line of the file. False: it is not of RAS.
  bool add(std::string_view line);

  /// The answers so far, oldest first, the last one perhaps incomplete.
  std::vector<std::string> take();

 private:
  bool is_open() const { return depth_ > 0 || !text_.empty(); }
  bool open_block(std::string_view line);
  bool add_text(std::string_view line);
  bool add_json(std::string_view line);
  void append(std::string_view line);
  void finish();

  std::vector<std::string> answers_;
  std::string text_;       ///< of the answer that is under way
  std::size_t bytes_ = 0;  ///< of all answers
  int last_heading_ = 0;
  int foreign_ = 0;  ///< lines of others since the last one of RAS
  int depth_ = 0;    ///< in a JSON document; 0: the answer is text
  bool is_answer_ = false;
};

}  // namespace busbar
