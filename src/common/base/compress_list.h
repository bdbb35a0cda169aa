#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Ranks in the order in which they were added, consecutive ones as one range: one line of a log may say that two
/// thousand million ranks are missing.
class RankList {
 public:
  struct Range {
    int first = 0, last = 0;
    bool operator==(const Range&) const = default;
  };

  RankList() = default;
  template <class Ranks>
  explicit RankList(const Ranks& ranks) {
    for (const int rank : ranks) add(rank);
  }

  void add(int rank) { add(Range{rank, rank}); }
  void add(Range range) {
    size_ += static_cast<std::uint64_t>(static_cast<std::int64_t>(range.last) - range.first + 1);
    if (!ranges_.empty() && static_cast<std::int64_t>(ranges_.back().last) + 1 == range.first) {
      ranges_.back().last = range.last;
    } else {
      ranges_.push_back(range);
    }
  }

  bool empty() const { return ranges_.empty(); }
  std::uint64_t size() const { return size_; }
  int front() const { return ranges_.front().first; }
  const std::vector<Range>& ranges() const { return ranges_; }
  /// One by one: only if their number is bounded by what was read.
  std::vector<int> each() const;
  bool operator==(const RankList&) const = default;

 private:
  std::vector<Range> ranges_;
  std::uint64_t size_ = 0;
};

/// The ranks from 0 to `nranks` - 1 that are not in `ascending`.
RankList missing_ranks(std::span<const int> ascending, int nranks);

/// Host names, compressed: "node[3,7-9],login". Names without numbers stay as they are. Pure.
std::string compress_hosts(const std::vector<std::string>& hosts);

/// The hosts of such a list, as Slurm writes and people type it: "node[3,7-9],gpu[01-04]-ib". Throws Error(bad_config):
/// an open bracket, a range that is none, or more than 65536 hosts.
std::vector<std::string> expand_hosts(std::string_view list);

/// "0-12,14,15": how lists of ranks are written.
std::string compress_ranks(const RankList& ranks);
std::string compress_ranks(std::span<const int> ranks);

}  // namespace busbar
