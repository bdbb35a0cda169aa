#include "common/output/wrong_text.h"

#include "common/output/format.h"

#include <fmt/format.h>

#include <set>

namespace busbar {
namespace {

std::string rank_line(std::size_t elements, const WrongRank& w) {
  const std::string amount = is_guard(w.part) ? fmt::format("{} elements overwritten", w.count)
                                              : fmt::format("{} of {} elements wrong", w.count, elements);
  std::string text = fmt::format("# wrong: rank {} {} {}: {}: {}, first {} last {}", w.rank, w.host, w.device,
                                 buffer_words(w.in_place, w.part), amount, w.first, w.last);
  if (!w.got.empty() || !w.want.empty()) text += fmt::format(", got {} want {}", w.got, w.want);
  const std::string& cause = w.explanation.empty() ? w.cause : w.explanation;
  return text + fmt::format(", suspected: {}\n", cause.empty() ? "undetermined" : cause);
}

}  // namespace

std::string wrong_text(const Collective& collective, const Row& row, bool in_json) {
  if (row.wrong.empty()) return {};
  const Case& c = row.row_case;
  std::set<int> explained;
  std::set<int> others;
  std::string ranks;
  for (const WrongRank& wrong : row.wrong) {
    if (explained.size() < kMaxExplainedRanks) explained.insert(wrong.rank);
    if (explained.count(wrong.rank) > 0) {
      ranks += rank_line(collective.extents(c.problem).recv, wrong);
    } else {
      others.insert(wrong.rank);
    }
  }
  std::string text =
      fmt::format("# wrong: {} size {} count {} {} {} root {} cycle {}: wrong data on {} of {} ranks\n",
                  collective.name, c.nbytes, c.problem.count, name(c.dtype), redop_text(c.op),
                  shown_root(collective, c.root), row.cycle, explained.size() + others.size(), c.problem.nranks);
  text += ranks;
  if (!others.empty()) {
    text += fmt::format("# wrong: ... and {} more ranks ({})\n", others.size(),
                        in_json ? "all in JSON" : "-J FILE.json lists all");
  }
  return text;
}

}  // namespace busbar
