#include "driver/accept/accept_merge.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace busbar {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

/// Of cells that were measured twice, because a launch was cut short after them, the later stands.
bool is_same(const MeasuredCell& a, const MeasuredCell& b) {
  return a.cell == b.cell && a.stage == b.stage && a.scope == b.scope && a.dtype == b.dtype && a.op == b.op &&
         a.nbytes == b.nbytes && a.in_place == b.in_place && a.repetition == b.repetition;
}

/// A step that is not done leaves nothing: it is measured again.
void drop_unfinished(AcceptResult& result) {
  const auto is_done = [&](Stage stage, const std::string& cell) {
    const std::string id = std::string(name(stage)) + "/" + cell;
    return std::find(result.done.begin(), result.done.end(), id) != result.done.end();
  };
  std::erase_if(result.cells, [&](const MeasuredCell& m) { return !is_done(m.stage, m.cell); });
  std::erase_if(result.skipped, [&](const SkippedCell& s) { return !is_done(s.stage, s.cell); });
}

Outcome outcome_of(const AcceptResult::Located& look) {
  Outcome outcome = look.finding.outcome;
  for (const auto& slow : look.slow_ranks) outcome = worse(outcome, slow.outcome);
  return outcome;
}

/// A look that could not tell says less than one that found nothing.
int weight(Outcome outcome) {
  switch (outcome) {
    case Outcome::skip:
      return 0;
    case Outcome::inconclusive:
      return 1;
    case Outcome::pass:
      return 2;
    case Outcome::warn:
      return 3;
    case Outcome::fail:
      return 4;
  }
  return 0;
}

/// Units are indices: they mean the same only among the same units.
void add_culprits(AcceptResult::Located& to, const AcceptResult::Located& from) {
  for (const auto& slow : from.slow_ranks) {
    const auto same = [&](const auto& known) { return known.rank == slow.rank; };
    if (std::none_of(to.slow_ranks.begin(), to.slow_ranks.end(), same)) to.slow_ranks.push_back(slow);
  }
  if (to.units != from.units) return;
  std::vector<Culprit>& all = to.finding.culprits;
  for (const Culprit& culprit : from.finding.culprits) {
    const auto same = [&](const Culprit& known) { return known.what == culprit.what && known.units == culprit.units; };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(culprit);
  }
}

}  // namespace

void add_located(AcceptResult& result, AcceptResult::Located look) {
  const Outcome outcome = outcome_of(look);
  if (look.looks == 0) {
    look.looks = 1;
    look.failed = outcome == Outcome::fail ? 1 : 0;
    look.unclear = outcome == Outcome::inconclusive ? 1 : 0;
  }
  if (!result.located) {
    result.located = std::move(look);
    return;
  }
  AcceptResult::Located& kept = *result.located;
  look.looks += kept.looks;
  look.failed += kept.failed;
  look.unclear += kept.unclear;
  const Outcome before = outcome_of(kept);
  const bool both_failed = before == Outcome::fail && outcome == Outcome::fail;
  if (weight(outcome) > weight(before)) std::swap(kept, look);
  if (both_failed) add_culprits(kept, look);
  kept.looks = std::max(kept.looks, look.looks);
  kept.failed = std::max(kept.failed, look.failed);
  kept.unclear = std::max(kept.unclear, look.unclear);
}

int last_repetition(const AcceptResult& result) {
  int last = 0;
  for (const MeasuredCell& m : result.cells) last = std::max(last, m.repetition);
  return last;
}

bool is_measured(const AcceptResult& result, const AcceptStep& step, int repetition) {
  if (repetition == 0) return std::find(result.done.begin(), result.done.end(), step.id) != result.done.end();
  if (step.cell < 0) return false;
  const std::string& name = result.plan.cells.at(static_cast<std::size_t>(step.cell)).name;
  return std::any_of(result.cells.begin(), result.cells.end(), [&](const MeasuredCell& m) {
    return m.repetition == repetition && m.stage == step.stage && m.cell == name;
  });
}

void take_over(AcceptResult& result, AcceptResult earlier) {
  drop_unfinished(earlier);
  result.start_time = earlier.start_time;
  result.elapsed_s = earlier.elapsed_s;
  result.excluded_hosts = std::move(earlier.excluded_hosts);
  result.doctor = std::move(earlier.doctor);
  result.counters = std::move(earlier.counters);
  result.cells = std::move(earlier.cells);
  result.skipped = std::move(earlier.skipped);
  result.located = std::move(earlier.located);
  result.failures = std::move(earlier.failures);
  result.done = std::move(earlier.done);
  if (result.hosts.empty()) result.hosts = std::move(earlier.hosts);
  result.remarks.push_back("resumed: the steps before were measured in an earlier run");
}

void add_part(AcceptResult& whole, AcceptResult part) {
  drop_unfinished(part);
  if (whole.backend.empty()) {
    whole.backend = part.backend;
    whole.library = part.library;
  }
  if (whole.network.empty()) whole.network = part.network;
  for (AcceptResult::Host& host : part.hosts) {
    const bool known = std::any_of(whole.hosts.begin(), whole.hosts.end(),
                                   [&](const AcceptResult::Host& h) { return h.name == host.name; });
    if (!known) whole.hosts.push_back(std::move(host));
  }
  for (std::string& remark : part.remarks) {
    if (std::find(whole.remarks.begin(), whole.remarks.end(), remark) == whole.remarks.end()) {
      whole.remarks.push_back(std::move(remark));
    }
  }
  if (!part.doctor.empty()) whole.doctor = std::move(part.doctor);
  append(whole.counters, part.counters);
  whole.counters_read = whole.counters_read || part.counters_read;
  for (MeasuredCell& m : part.cells) {
    std::erase_if(whole.cells, [&](const MeasuredCell& old) { return is_same(old, m); });
    whole.cells.push_back(std::move(m));
  }
  append(whole.skipped, part.skipped);
  if (part.located) add_located(whole, std::move(*part.located));
  for (std::string& id : part.done) {
    if (std::find(whole.done.begin(), whole.done.end(), id) == whole.done.end()) whole.done.push_back(std::move(id));
  }
}

}  // namespace busbar
