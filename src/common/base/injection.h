#pragma once

#include "common/base/enum_words.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace busbar {

/// A way in which the suite breaks itself (--inject), so that users can test their alarms.
struct Injection {
  enum class Kind : std::uint8_t {
    skip,     ///< does not call the operation
    late,     ///< calls it late_s later
    count,    ///< calls it with one element fewer
    dtype,    ///< ... with another type of the same width
    op,       ///< ... with another reduction
    stop,     ///< stops itself before it (SIGSTOP)
    kill,     ///< sends SIGKILL to itself instead
    crash,    ///< sends SIGSEGV to itself instead
    flip,     ///< one bit of the result is wrong; this and all that follow change data
    drop,     ///< its contribution is missing
    doubled,  ///< its contribution counts twice
    shift,    ///< the result is one element too far
    overrun,  ///< 16 bytes after the receive buffer are written
  };
  int rank = 0;                 ///< as the header counts ranks
  std::uint64_t operation = 1;  ///< the process's own number, from 1: warm-up and checks count
  Kind kind = Kind::skip;
  double late_s = 0;  ///< of late

  bool operator==(const Injection&) const = default;
};

/// As --inject spells them.
constexpr EnumWords<13> words_of(Injection::Kind) {
  return {"skip",  "late", "count", "dtype",  "op",    "stop",   "kill",
          "crash", "flip", "drop",  "double", "shift", "overrun"};
}

/// "rank=3,op=42,kind=late:5s". Throws Error(bad_config) that names keys and kinds, and the nearest of them.
Injection parse_injection(std::string_view text);

/// "rank 3 will come 5 s late to its operation 42".
std::string describe(const Injection& injection);

/// Whether it changes the arguments of the call.
bool changes_call(Injection::Kind kind);

/// Whether it changes data.
bool changes_data(Injection::Kind kind);

}  // namespace busbar
