#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Messages and bytes from one rank to another.
struct Sent {
  std::uint64_t messages = 0;
  std::uint64_t nbytes = 0;
  auto operator<=>(const Sent&) const = default;
};

/// Who sends what to whom: [rank][peer].
using SentMatrix = std::vector<std::vector<Sent>>;

/// One rank's row from the file that Open MPI's pml monitoring writes at the end (lines "I rank peer N bytes M msgs
/// sent ..." of the library's own messages, "E" of the program's). Throws Error(backend) for what is not such a file.
std::vector<Sent> parse_monitoring(std::string_view text, int rank, int nranks);

/// (with - without) / calls. Throws Error(inconclusive) where it does not divide: the calls did not all send the same.
SentMatrix per_call(const SentMatrix& with, const SentMatrix& without, int calls);

/// What a rank sends in all.
Sent total(const std::vector<Sent>& row);

/// "6 messages, 96 KiB per rank", or where ranks differ "r0 3/192 KiB, others 1/64 KiB" (messages/bytes); ranks that
/// send alike are put together, the first of the largest groups last as "others".
std::string describe(const SentMatrix& sent);

}  // namespace busbar
