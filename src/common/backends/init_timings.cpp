#include "common/backends/init_timings.h"

#include <algorithm>

namespace busbar {

bool read_init_timings(LogScan scan, InitTimings& timings) {
  InitTimings found;
  if (scan.take(" - ")) scan.name();
  if (!scan.take(": rank ") || !scan.number(found.rank) || !scan.take(" nranks ") || !scan.number(found.nranks) ||
      !scan.take(" total ") || !scan.number(found.total)) {
    return false;
  }
  scan.skip_blanks();
  for (bool more = scan.take("("); more;) {
    const std::string_view part_name = scan.name();
    double value = 0;
    if (!scan.take(" ") || !scan.number(value)) break;
    // A value without ',' or ')' after it is cut off.
    more = scan.take(", ");
    if (!more && !scan.take(")")) break;
    for (const auto& [known, part] : kInitPhases)
      if (part_name == known) found.*part = value;
  }
  timings = found;
  return true;
}

std::vector<InitTimings> find_init_timings(std::string_view log) {
  constexpr std::string_view kMark = " NCCL INFO Init timings";
  std::vector<InitTimings> found;
  for (const std::string_view line : split_text(log.substr(0, log.rfind('\n') + 1), '\n')) {
    const std::size_t mark = line.find(kMark);
    InitTimings timings;
    if (mark == std::string_view::npos || !read_init_timings({line.substr(mark + kMark.size())}, timings)) continue;
    found.push_back(timings);
  }
  return found;
}

const InitTimings* slowest_init(const std::vector<InitTimings>& ranks) {
  const auto slowness = [](const InitTimings& t) { return std::pair(t.total, -t.rank); };
  const auto slowest = std::ranges::max_element(ranks, {}, slowness);
  return slowest == ranks.end() ? nullptr : &*slowest;
}

}  // namespace busbar
