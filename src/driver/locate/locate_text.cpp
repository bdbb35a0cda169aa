#include "driver/locate/locate_text.h"

#include "common/base/units.h"
#include "common/record/culprit_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

namespace busbar {
namespace {

using Kind = LocateRound::Kind;

std::string rails_text(const Culprit& culprit) {
  if (!culprit.slow_rails.empty()) return fmt::format("{}", fmt::join(culprit.slow_rails, ","));
  return culprit.rail >= 0 ? std::to_string(culprit.rail) : "-";
}

std::string count_text(int some, int all) { return all == 0 ? "-" : fmt::format("{} of {}", some, all); }

std::string suspects_table(const AcceptResult::Located& located) {
  if (located.finding.culprits.empty()) return "";
  std::size_t width = 7;
  for (const Culprit& c : located.finding.culprits) width = std::max(width, who(c, located.units).size());
  std::string text = fmt::format("#\n# {:<{}}  {:>9}  {:>13}  {:>13}  {:>9}  {:>5}  {:>5}\n", "suspect", width,
                                 "slow with", "share", "confirmations", "side", "rails", "alone");
  for (const Culprit& c : located.finding.culprits) {
    text += fmt::format("# {:<{}}  {:>9}  {:>13}  {:>13}  {:>9}  {:>5}  {:>5}  {}{}\n", who(c, located.units), width,
                        count_text(c.slow_partners, c.partners),
                        c.ratio > 0 ? fmt::format("{:.2f} +- {:.2f}", c.ratio, c.ratio_error) : "-",
                        count_text(c.failed_confirmations, c.confirmations), side_word(c.side), rails_text(c),
                        c.alone_ratio > 0 ? fmt::format("{:.2f}", c.alone_ratio) : "-", name(c.outcome),
                        c.intermittent ? ", intermittent" : "");
  }
  return text;
}

/// "5 calibration, 4 matching, 3 confirmation".
std::string rounds_text(const LocateRun& run) {
  std::map<Kind, int> counts;
  for (const MeasuredRound& round : run.rounds) ++counts[round.round.kind];
  std::vector<std::string> texts;
  for (const auto& [kind, count] : counts) texts.push_back(fmt::format("{} {}", count, kind_word(kind)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string ranks_text(const RankFinding& ranks) {
  std::string text;
  for (const SlowRank& slow : ranks.slow) text += fmt::format("{}: {}\n", name(slow.outcome), describe(slow));
  if (ranks.slow.empty() && ranks.outcome == Outcome::pass) text += "# no rank is slow by itself or comes late\n";
  for (const std::string& reason : ranks.skipped) text += fmt::format("# not judged: {}\n", reason);
  return text;
}

std::string counters_text(const LocateRun& run) {
  std::string text;
  for (const DoctorRow& row : run.counters) {
    text += fmt::format("{}: counter: {}: {} {}{}\n", name(row.outcome), row.subject, row.check, row.value,
                        row.reason.empty() ? "" : fmt::format(": {}", row.reason));
  }
  return text;
}

std::string measured_text(const LocateRun& run) {
  const LocateFinding& f = run.located.finding;
  std::string text;
  if (run.shape.repetitions > 0) {
    text +=
        fmt::format("# {} {}s; {} rounds ({}{}) in {:.1f} s; messages of {} on {} link{} of a pair, {} repetitions\n",
                    run.located.units.size(), name(run.located.unit), f.rounds, rounds_text(run),
                    run.rounds_left_out > 0 ? ", ..." : "", run.time_s, format_bytes(run.shape.nbytes), run.links,
                    run.links == 1 ? "" : "s", run.shape.repetitions);
  }
  text += fmt::format(
      "# noise {:.1f} %, slow below {:.2f} of the median {}; seed {}; {:.2g} of {} would be blamed by "
      "chance\n",
      100 * f.noise, f.threshold, bandwidth_text(f.median_bandwidth), run.options.search.seed, f.expected_false,
      run.located.units.size());
  return text;
}

}  // namespace

std::string bandwidth_text(double bytes_per_s) {
  constexpr std::array kUnits = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t unit = 0;
  while (bytes_per_s >= 1000 && unit + 1 < kUnits.size()) {
    bytes_per_s /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", bytes_per_s, kUnits[unit]);
}

const char* kind_word(Kind kind) {
  constexpr const char* kWords[] = {"calibration", "matching", "confirmation", "full", "retest",
                                    "direction",   "rail",     "halving",      "alone"};
  return kWords[static_cast<int>(kind)];
}

const char* side_word(Culprit::Side side) {
  constexpr const char* kWords[] = {"-", "both ways", "transmit", "receive"};
  return kWords[static_cast<int>(side)];
}

std::string locate_text(const LocateRun& run) {
  const LocateFinding& finding = run.located.finding;
  const auto decides = [&](const DoctorRow& row) { return worse(row.outcome, finding.outcome) != finding.outcome; };
  const bool counters_first = std::any_of(run.counters.begin(), run.counters.end(), decides);
  std::string text = counters_first ? counters_text(run) : "";
  text += headline(finding, run.located.units) + "\n";
  for (std::size_t i = 1; i < finding.culprits.size(); ++i) {
    text +=
        fmt::format("{}: {}\n", name(finding.culprits[i].outcome), describe(finding.culprits[i], run.located.units));
  }
  text += ranks_text(run.ranks);
  if (!counters_first) text += counters_text(run);
  return text + suspects_table(run.located) + matrix_text(run.located) + "#\n" + measured_text(run);
}

}  // namespace busbar
