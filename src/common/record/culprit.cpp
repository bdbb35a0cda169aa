#include "common/record/culprit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>

namespace busbar {
namespace {

using Side = Culprit::Side;
using What = Culprit::What;

std::string of_median(const Culprit& culprit) {
  if (culprit.ratio < 0.005) return "";  // "0.00 of the median" says nothing
  const std::string error = culprit.ratio_error > 0 ? fmt::format(" +- {:.2f}", culprit.ratio_error) : "";
  return fmt::format(" ({:.2f}{} of the median)", culprit.ratio, error);
}

constexpr EnumWords<4> kSideWords{"", ", both directions", ", transmit side", ", receive side"};
static_assert(kSideWords.size() == words_of(Side{}).size());

std::string rail_words(const Culprit& culprit) {
  if (culprit.slow_rails.empty()) return culprit.rail >= 0 ? fmt::format(", rail {}", culprit.rail) : "";
  return fmt::format(", {} {}", culprit.slow_rails.size() == 1 ? "rail" : "rails", fmt::join(culprit.slow_rails, ","));
}

std::string confirmed(const Culprit& culprit) {
  if (culprit.confirmations == 0) return "";
  return fmt::format(", {} of {} confirmations", culprit.failed_confirmations, culprit.confirmations);
}

std::string over_time(const Culprit& culprit) {
  return culprit.over_time > 0 ? fmt::format(", {:.2f} of what others reach over time", culprit.over_time) : "";
}

std::string alone(const Culprit& culprit) {
  return culprit.alone_ratio > 0 ? fmt::format(", {:.2f} alone", culprit.alone_ratio) : "";
}

std::string what_was_seen(const Culprit& culprit, std::span<const std::string> names) {
  const std::string name = who(culprit, names);
  const std::string ratio = of_median(culprit);
  switch (culprit.what) {
    case What::unit:
      if (culprit.intermittent && culprit.ratio <= 0) {
        return fmt::format("{}: comes and goes: dips in {} of {} measurements{}{}", name, culprit.slow_partners,
                           culprit.partners, confirmed(culprit), over_time(culprit));
      }
      return fmt::format("{}: {}{} of {} partners slow{}{}{}{}{}", name, culprit.intermittent ? "comes and goes: " : "",
                         culprit.slow_partners, culprit.partners, ratio, confirmed(culprit),
                         word(kSideWords, culprit.side), rail_words(culprit), alone(culprit));
    case What::link:
      return fmt::format("{}: this pair is slow{}, {} of {} times again, both ends are good with others{}", name, ratio,
                         culprit.failed_confirmations, culprit.confirmations, alone(culprit));
    case What::one_of_two:
      if (culprit.side == Side::transmit && culprit.units.size() == 2) {
        const std::vector<std::string> units = unit_names(culprit, names);
        return fmt::format("one of these two: {}: {} -> {} reaches {:.2f} of {} -> {}, {} times", name, units[0],
                           units[1], culprit.ratio, units[1], units[0], culprit.confirmations);
      }
      return fmt::format("one of these two: {}: {:.2f} of what is expected, {} of {} times", name, culprit.ratio,
                         culprit.failed_confirmations, culprit.confirmations);
    case What::contention:
      if (culprit.units.size() > 2) {
        return fmt::format(
            "{} units together: slow as a group{}, {} of {} times, not in smaller ones: the fabric "
            "between them, not one of them ({})",
            culprit.units.size(), ratio, culprit.failed_confirmations, culprit.confirmations, name);
      }
      return fmt::format("{}: slow only while others run{}{}: the fabric, not the {}{}", name, ratio,
                         confirmed(culprit), culprit.units.size() == 1 ? "unit" : "pair", alone(culprit));
  }
  return name;
}

}  // namespace

std::vector<std::string> unit_names(const Culprit& culprit, std::span<const std::string> names) {
  std::vector<std::string> units;
  for (const int unit : culprit.units) {
    const auto i = static_cast<std::size_t>(unit);
    units.push_back(unit >= 0 && i < names.size() ? names[i] : fmt::format("unit {}", unit));
  }
  return units;
}

std::string who(const Culprit& culprit, std::span<const std::string> names) {
  std::vector<std::string> units = unit_names(culprit, names);
  if (units.size() > 4) {
    const std::size_t more = units.size() - 3;
    units.resize(3);
    return fmt::format("{} and {} more", fmt::join(units, ", "), more);
  }
  const bool arrow = culprit.what == What::link && culprit.side == Side::transmit;
  const char* between = culprit.what == What::one_of_two ? " or " : arrow ? " -> " : units.size() == 2 ? " - " : ", ";
  return fmt::format("{}", fmt::join(units, between));
}

std::string looks_words(int looks, int slow) {
  if (looks < 2) return "";
  return fmt::format(", slow in {} of {} looks{}", slow, looks,
                     slow < looks ? ": busy for a while, it seems, not at fault" : "");
}

std::string describe(const Culprit& culprit, std::span<const std::string> names) {
  return what_was_seen(culprit, names) + looks_words(culprit.looks, culprit.looks_slow);
}

std::string headline(const LocateVerdict& verdict, std::span<const std::string> names) {
  const std::string word = name(verdict.outcome);
  if (!verdict.culprits.empty()) {
    const std::size_t more = verdict.culprits.size() - 1;
    return fmt::format("{}: {}{}", word, describe(verdict.culprits.front(), names),
                       more == 0 ? "" : fmt::format(" (and {} more)", more));
  }
  if (!verdict.reason.empty()) return fmt::format("{}: {}", word, verdict.reason);
  return fmt::format("{}: all{} within {:.2f} of the median ({} rounds, noise {:.1f} %)", word,
                     names.empty() ? "" : fmt::format(" {}", names.size()), verdict.threshold, verdict.rounds,
                     100 * verdict.noise);
}

std::string_view without_outcome(std::string_view headline, Outcome outcome) {
  const std::string word = fmt::format("{}: ", name(outcome));
  if (headline.starts_with(word)) headline.remove_prefix(word.size());
  return headline;
}

}  // namespace busbar
