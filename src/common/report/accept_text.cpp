#include "common/report/accept_text.h"

#include <fmt/format.h>
namespace busbar {
std::string accept_text(const AcceptResult& r) {
  std::string t = fmt::format("{}\n", name(r.outcome));
  for (const auto& c : r.criteria)
    if (c.outcome != Outcome::pass)
      t += fmt::format("{} {} {} {} {} {} | {} | {} | {}\n", name(c.outcome), c.criterion, c.cell, c.scope, c.nbytes,
                       c.in_place, c.found, c.wanted, c.reason);
  return t;
}
}  // namespace busbar
