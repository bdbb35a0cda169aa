#include "common/backends/backend.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/format.h"
#include "common/output/table.h"
#include "driver/compare/compare.h"
#include "driver/compare/compare_reporter.h"
#include "driver/compare/comparison.h"
#include "driver/compare/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace busbar {
namespace {

constexpr std::size_t kLineWidth = 160;
constexpr std::size_t kSizeWidth = 12;
constexpr std::size_t kTimeWidth = 10;
constexpr std::size_t kLeastCellWidth = 12;
constexpr std::size_t kMostCellWidth = 16;
constexpr std::size_t kWinnerWidth = 24;  // of two names
constexpr std::size_t kRegretWidth = 8;

/// Three digits.
std::string ratio_number(double value) {
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 0.9995 ? 2 : 3;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string percent_of_fraction(double fraction) {
  const double p = 100 * fraction;
  return p >= 10 ? fmt::format("{:.0f}", p) : fmt::format("{:.1f}", p);
}

/// A label in pieces of at most `width`, broken after '_' and '/' if possible.
std::vector<std::string> wrapped_label(std::string label, std::size_t width) {
  std::vector<std::string> lines;
  while (label.size() > width) {
    const std::size_t at = label.find_last_of("_/", width - 1);
    const std::size_t take = at == std::string::npos || at == 0 ? width : at + 1;
    lines.push_back(label.substr(0, take));
    label.erase(0, take);
  }
  lines.push_back(label);
  return lines;
}

/// Wide enough for every word of a label, if that is not too wide.
std::size_t cell_width(const Comparison& comparison) {
  std::size_t width = kLeastCellWidth;
  for (const Variant& variant : comparison.variants) {
    std::size_t word = 0;
    for (char c : variant.label) {
      ++word;
      width = std::max(width, std::min(word, kMostCellWidth));
      if (c == '_' || c == '/') word = 0;
    }
  }
  return width;
}

/// Titles of several lines, aligned at the bottom.
std::string title_lines(const std::vector<std::string>& names, const std::vector<std::size_t>& widths) {
  std::vector<std::vector<std::string>> columns;
  std::size_t height = 1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    columns.push_back(wrapped_label(names[i], widths[i]));
    height = std::max(height, columns.back().size());
  }
  std::string text;
  for (std::size_t line = 0; line < height; ++line) {
    std::string row;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::size_t skip = height - columns[i].size();
      row += fmt::format("{}{:>{}}", i == 0 ? "" : " ", line < skip ? "" : columns[i][line - skip], widths[i]);
    }
    row[0] = '#';
    text += row + "\n";
  }
  return text;
}

/// Wide enough for the winner of every size.
std::size_t winner_width(const Comparison& comparison) {
  std::size_t width = kWinnerWidth;
  for (const ComparedCase& compared : comparison.cases)
    width = std::max(width, winner_text(comparison, compared).size());
  return width;
}

/// One block of the table: the variants from `first` on, `count` of them; winner and regret after the last block.
std::string block_text(const Comparison& comparison, std::size_t first, std::size_t count) {
  const std::size_t cell = cell_width(comparison), wide = winner_width(comparison);
  const bool last = first + count == comparison.variants.size();
  std::vector<std::string> names{"size (B)", "default us"};
  std::vector<std::size_t> widths{kSizeWidth, kTimeWidth};
  for (std::size_t v = first; v < first + count; ++v) {
    names.push_back(comparison.variants[v].label);
    widths.push_back(cell);
  }
  std::string text = title_lines(names, widths);
  if (last) {
    const std::string winner = fmt::format("  {:<{}} {:>{}}", "winner", wide, "regret %", kRegretWidth);
    text.insert(text.size() - 1, winner);
  }
  for (const ComparedCase& compared : comparison.cases) {
    const VariantCell& base = compared.variants.front();
    const std::string time = base.usable() ? fit_number(1e6 * base.median_s, kTimeWidth) : cell_text(base);
    text += fmt::format("{:>{}} {:>{}}", compared.row_case.nbytes, kSizeWidth, time, kTimeWidth);
    for (std::size_t v = first; v < first + count; ++v) {
      text += fmt::format(" {:>{}}", cell_text(compared.variants[v]), cell);
    }
    if (last) {
      text += fmt::format("  {:<{}} {:>{}}", winner_text(comparison, compared), wide,
                          compared.winner < 0 ? "-" : percent_of_fraction(compared.regret), kRegretWidth);
    }
    text += "\n";
  }
  return text;
}

std::string table_text(const Comparison& comparison) {
  const std::size_t fixed = kSizeWidth + 1 + kTimeWidth + 2 + winner_width(comparison) + 1 + kRegretWidth;
  const std::size_t per_block = std::max<std::size_t>(1, (kLineWidth - fixed) / (cell_width(comparison) + 1));
  std::string text;
  std::size_t first = 1;
  do {
    const std::size_t count = std::min(per_block, comparison.variants.size() - first);
    text += block_text(comparison, first, count);
    first += count;
  } while (first < comparison.variants.size());
  return text;
}

/// A remark on a variant at neighboring sizes, printed once: "LABEL: text (sizes)".
template <class TextOf>
std::string by_range(const Comparison& comparison, std::string_view head, TextOf text_of) {
  std::string lines;
  for (std::size_t v = 0; v < comparison.variants.size(); ++v) {
    for (std::size_t i = 0; i < comparison.cases.size();) {
      const std::string text = text_of(comparison.cases[i], v);
      std::size_t end = i + 1;
      while (end < comparison.cases.size() && text_of(comparison.cases[end], v) == text) ++end;
      if (!text.empty()) {
        std::string sizes = format_bytes(comparison.cases[i].row_case.nbytes);
        if (end > i + 1) sizes += " to " + format_bytes(comparison.cases[end - 1].row_case.nbytes);
        if (i == 0 && end == comparison.cases.size()) sizes = "all sizes";
        lines += remark_lines(fmt::format("{} {}, {}: {}", head, comparison.variants[v].label, sizes, text));
      }
      i = end;
    }
  }
  return lines;
}

std::string plain(std::string_view text) {
  std::string letters;
  for (char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) letters += static_cast<char>(std::tolower(c));
  }
  return letters;
}

/// What the library says it ran, if the label does not say it already.
std::string ran_text(const Comparison& comparison, const ComparedCase& compared, std::size_t v) {
  const VariantCell& cell = compared.variants[v];
  if (!cell.usable() || !names_algorithm(cell.ran.algorithm)) return {};
  std::string text = cell.ran.algorithm;
  if (cell.ran.protocol != "-") text += "/" + cell.ran.protocol;
  if (plain(text) == plain(comparison.variants[v].label)) return {};
  if (cell.ran.channels != "-") text += fmt::format(" on {} channels", cell.ran.channels);
  return text;
}

std::string fit_lines(const Comparison& comparison) {
  const auto fits = hockney_fits(comparison);
  std::string text;
  for (std::size_t v = 0; v < fits.size(); ++v) {
    if (!fits[v]) continue;
    if (text.empty()) {
      text =
          "#\n# time = latency + bytes / bandwidth, fitted to relative errors over all sizes; the residual says\n"
          "# how far to trust it\n";
      text += fmt::format("# {:<26} {:>12} {:>10} {:>17}\n", "fit", "latency us", "GB/s", "worst residual %");
    }
    const std::string rate = std::isfinite(fits[v]->bandwidth) ? fmt::format("{:.3g}", fits[v]->bandwidth / 1e9) : "-";
    text += fmt::format("# {:<26} {:>12.2f} {:>10} {:>17.0f}\n", comparison.variants[v].label, 1e6 * fits[v]->latency_s,
                        rate, 100 * fits[v]->worst_relative_error);
  }
  return text;
}

std::string count_lines(const Comparison& comparison) {
  const CellCounts n = count_cells(comparison);
  std::string text = fmt::format("# cells: {} compared with the default, {} undecided", n.compared, n.undecided);
  if (n.out_of_time > 0) text += fmt::format(" ({} for lack of time)", n.out_of_time);
  text += fmt::format(", {} n/a, {} WRONG\n", n.not_possible, n.wrong);
  const auto unmeasured =
      std::ranges::count_if(comparison.cases, [](const ComparedCase& c) { return c.rounds == 0 && c.out_of_time; });
  if (unmeasured > 0) text += fmt::format("# {} sizes were not reached\n", unmeasured);
  if (n.out_of_time > 0 || unmeasured > 0) text += "# more time: --max-time (whole run), --cell-time (one size)\n";
  return text;
}

std::string worst_regret_line(const Comparison& comparison) {
  const ComparedCase* worst = nullptr;
  for (const ComparedCase& c : comparison.cases) {
    if (c.winner > 0 && (worst == nullptr || c.regret > worst->regret)) worst = &c;
  }
  if (worst == nullptr) return "# the library's own choice is nowhere confidently beaten\n";
  const Variant& winner = comparison.variants[worst->winner];
  std::string text =
      fmt::format("# largest regret of the library's own choice: {} % at {}, where {} takes {} of its time\n",
                  percent_of_fraction(worst->regret), format_bytes(worst->row_case.nbytes), winner.label,
                  ratio_number(1 / (1 + worst->regret)));
  const std::string hint = emission_hint(mapped(winner.settings, [](const auto& setting) { return setting.first; }));
  return hint.empty() ? text : text + fmt::format("# {}\n", hint);
}

/// "ring overtakes recursive_doubling and default between 8 KiB and 16 KiB", one per line.
std::vector<std::string> crossover_lines(const Comparison& comparison) {
  const std::vector<NamedCrossover> all = named_crossovers(comparison);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < all.size();) {
    // One line for all that the same variant passes in the same place.
    std::vector<std::string> passed;
    double regret = 0;
    std::size_t end = i;
    for (; end < all.size() && all[end].above == all[i].above && all[end].crossover.low == all[i].crossover.low &&
           all[end].crossover.high == all[i].crossover.high;
         ++end) {
      passed.push_back(comparison.variants[all[end].below].label);
      regret = std::max(regret, all[end].crossover.regret);
    }
    lines.push_back(fmt::format(
        "{} overtakes {} between {} and {} (at the sizes measured a wrong choice costs at most {} %)",
        comparison.variants[all[i].above].label, fmt::join(passed, " and "), format_bytes(all[i].crossover.low),
        format_bytes(all[i].crossover.high), percent_of_fraction(regret)));
    i = end;
  }
  return lines;
}

/// "all_reduce float sum, out of place, 4 ranks": what a comparison is of.
std::string title(const Comparison& comparison) {
  std::string text(comparison.collective->name);
  if (comparison.cases.empty()) return text;
  const Case& first = comparison.cases.front().row_case;
  text += fmt::format(" {}", name(first.dtype));
  if (first.op) text += fmt::format(" {}", name(*first.op));
  text += root_words(*comparison.collective, first.root);
  return text + fmt::format(", {}, {} ranks on {}", comparison.cases.front().in_place ? "in place" : "out of place",
                            comparison.nranks, counted(comparison.nnodes, "node"));
}

/// If nothing beats the default: what equals it, what may be as fast, and what loses. "default (= tree) or pat;
/// ring 1.9 times slower".
std::string unbeaten_text(const Comparison& comparison, const ComparedCase& compared) {
  std::vector<std::string> equal, open, slow;
  double least = INFINITY;
  for (std::size_t v = 1; v < compared.variants.size(); ++v) {
    const VariantCell& cell = compared.variants[v];
    if (!cell.usable() || !cell.ratio) continue;
    const bool loses = cell.difference == Difference::slower;
    (loses ? slow : cell.difference == Difference::equivalent ? equal : open).push_back(comparison.variants[v].label);
    if (loses) least = std::min(least, cell.ratio->value);
  }
  const auto names = [](const std::vector<std::string>& of) {
    constexpr std::size_t kMost = 20;  // all three lists fit in a line
    const std::string all = joined_words(of, ", ");
    return all.size() > kMost ? counted(of.size(), "setting") : all;
  };
  std::string text = comparison.variants.front().label;
  if (!equal.empty()) text += fmt::format(" (= {})", names(equal));
  if (!open.empty()) text += " or " + names(open);
  if (slow.empty()) return text;
  const std::string by = least < 1.5 ? fmt::format("{:.0f} %", 100 * (least - 1)) : fmt::format("{:.1f} times", least);
  return text + fmt::format("; {} {} slower{}", names(slow), by, slow.size() > 1 ? " or more" : "");
}

}  // namespace

std::string cell_text(const VariantCell& cell) {
  if (!cell.why_not.empty()) return "n/a";
  if (cell.wrong > 0) return "WRONG";
  if (!cell.ratio) return "-";
  const Ratio& r = *cell.ratio;
  const double half_width = (r.interval.high - r.interval.low) / 2 / r.value;
  constexpr std::string_view kMarks = "<>=?";  // as Difference counts
  const char mark = kMarks[static_cast<std::size_t>(cell.difference)];
  return fmt::format("{}+-{}%{}", ratio_number(r.value), percent_of_fraction(half_width), mark);
}

std::string winner_text(const Comparison& comparison, const ComparedCase& compared) {
  const bool compares = std::any_of(compared.variants.begin() + 1, compared.variants.end(),
                                    [](const VariantCell& c) { return c.usable() && c.ratio; });
  if (!compares) return "-";
  if (compared.winner <= 0) return unbeaten_text(comparison, compared);
  std::string text = comparison.variants[compared.winner].label;
  // Others that beat the default too and cannot be told from the winner.
  std::vector<std::string> others;
  for (std::size_t v : leaders(compared, comparison.delta, comparison.between_launches)) {
    if (v == static_cast<std::size_t>(compared.winner) || compared.variants[v].difference != Difference::faster)
      continue;
    others.push_back(comparison.variants[v].label);
  }
  if (others.empty()) return text;
  const std::string named = fmt::format("{} or {}", text, others.front());
  if (others.size() == 1 && named.size() <= kWinnerWidth) return named;
  return fmt::format("{} or {} more", text, others.size());
}

std::string compare_header(const RunInfo& info, double delta) {
  std::string text = fmt::format("# busbar version {} compare backend={} library={}\n", info.version, info.backend,
                                 info.library_version);
  if (!info.cadence.empty()) {
    text += fmt::format("# cadence: {}; a time is {}; seed {}\n", info.cadence, info.estimand, info.seed);
    text += fmt::format(
        "# rounds: {} at most, each with new communicators and buffers, sizes and variants in random order;\n"
        "# checked after {}; at most {} in all, {} per size\n",
        kLooks.back(), fmt::join(kLooks, ", "), format_duration(info.config.max_time_s),
        format_duration(info.config.cell_time_s));
  }
  text += job_lines(info) +
          "# Columns: a variant's time over that of the library's own choice (default), +- half of the\n"
          "# interval.";
  text += fmt::format(
      " '<', '>': confidently faster, slower by more than {0} %; '=': within {0} %; '?': undecided.\n"
      "# If an interval is lopsided, the mark counts, and -J has both ends. Regret: what the default takes\n"
      "# beyond the winner. An interval covers other communicators and buffers of this launch, in these\n"
      "# minutes. Launches may differ by more, which one cannot show: --launch compares launches.\n",
      percent_of_fraction(delta));
  return text;
}

std::string comparison_text(const Comparison& comparison) {
  std::string text = fmt::format("#\n# Comparison of {}\n#\n", title(comparison));
  text += table_text(comparison);
  text += "#\n";
  for (const std::string& line : crossover_lines(comparison)) text += remark_lines(line);
  text += worst_regret_line(comparison);
  text += by_range(comparison, "WRONG", [](const ComparedCase& c, std::size_t v) {
    return c.variants[v].wrong == 0 ? "" : fmt::format("{} wrong elements", c.variants[v].wrong);
  });
  text += by_range(comparison, "n/a", [](const ComparedCase& c, std::size_t v) { return c.variants[v].why_not; });
  text += by_range(comparison, "ran", [&](const ComparedCase& c, std::size_t v) { return ran_text(comparison, c, v); });
  text += fit_lines(comparison);
  text += "#\n" + count_lines(comparison);
  return text;
}

}  // namespace busbar
