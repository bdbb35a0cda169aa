#include "common/output/rank_table.h"

#include "common/output/format.h"
#include "common/output/straggler.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace busbar {
namespace {

std::string microseconds(double time_s) { return fit_number(time_s * 1e6, 7); }

std::string verdict(const CellStats& cell) {
  if (!cell.skew_median_s) return "arrivals unknown: no host clock sees them";
  if (cell.shared_cores) return "no straggler named: ranks share cores, the scheduler chooses who arrives last";
  if (const auto straggler = find_straggler(cell)) {
    return fmt::format("straggler: rank {} on {} last in {:.0f} % of samples, {} us late", straggler->rank,
                       straggler->host, straggler->last_share * 100, microseconds(straggler->late_s));
  }
  return "no straggler";
}

std::vector<RankTimes> latest_first(std::vector<RankTimes> ranks) {
  std::sort(ranks.begin(), ranks.end(), [](const RankTimes& a, const RankTimes& b) {
    return std::tuple(-a.late_median_s, -a.last_share, a.rank) < std::tuple(-b.late_median_s, -b.last_share, b.rank);
  });
  return ranks;
}

}  // namespace

std::string rank_table_legend() {
  return "# Per rank: median of its own time in the operation, lateness after the first rank's arrival, share of "
         "samples in which it arrived last.\n"
         "# The straggler is the late rank: the others wait for it, so that their own times are the longer ones.\n";
}

std::string rank_table(std::string_view cell_name, const CellStats& cell) {
  const std::vector<RankTimes> ranks = latest_first(cell.ranks);
  const std::size_t shown = std::min(ranks.size(), kMaxTableRanks);
  std::size_t host_width = 10;
  for (std::size_t i = 0; i < shown; ++i) host_width = std::max(host_width, ranks[i].host.size());

  std::string text = fmt::format("# {}: {}\n", cell_name, verdict(cell));
  text += fmt::format("#   {:>6}  {:>{}}  {:>8}  {:>9}  {:>13}  {:>7}\n", "rank", "host", host_width, "own (us)",
                      "late (us)", "late p99 (us)", "last %");
  const bool arrivals = cell.skew_median_s.has_value();
  for (std::size_t i = 0; i < shown; ++i) {
    const RankTimes& r = ranks[i];
    text +=
        fmt::format("#   {:>6}  {:>{}}  {:>8}  {:>9}  {:>13}  {:>7}\n", r.rank, r.host, host_width,
                    microseconds(r.own_median_s), arrivals ? microseconds(r.late_median_s) : "-",
                    arrivals ? microseconds(r.late_p99_s) : "-", arrivals ? fit_number(r.last_share * 100, 6) : "-");
  }
  if (ranks.size() > shown) {
    text += fmt::format("#   ... and {} more ranks, none of them later; -J FILE.json has all {}\n",
                        ranks.size() - shown, ranks.size());
  }
  return without_footer_words(text);
}

}  // namespace busbar
