#include "common/base/error.h"
#include "common/base/units.h"
#include "driver/compare/emit.h"
#include "driver/compare/variant_environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace busbar {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Settings that name the collective when they become variables.
bool of_one_collective(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames{"ompi.algorithm", "ompi.segmentsize", "NCCL_ALGO", "NCCL_PROTO"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool of_one_collective(const Comparison& comparison) {
  for (const Variant& variant : comparison.variants) {
    for (const auto& setting : variant.settings) {
      if (!of_one_collective(setting.first)) return false;
    }
  }
  return true;
}

bool same_settings(const Comparison& a, const Comparison& b) {
  return std::equal(a.variants.begin(), a.variants.end(), b.variants.begin(), b.variants.end(),
                    [](const Variant& x, const Variant& y) { return x.settings == y.settings; });
}

/// Comparisons for which one variant is chosen.
using Group = std::vector<const Comparison*>;

std::vector<Group> group(std::span<const Comparison> comparisons) {
  std::vector<Group> groups;
  for (const Comparison& c : comparisons) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return !of_one_collective(c) && same_settings(*g.front(), c);
    });
    if (found == groups.end()) {
      groups.push_back({&c});
    } else {
      found->push_back(&c);
    }
  }
  return groups;
}

/// The time over that of the library's own choice, as far as it is certain; nothing where the variant cannot be used.
std::optional<double> certain_ratio(const VariantCell& cell) {
  if (!cell.usable()) return std::nullopt;
  const bool differs = cell.difference == Difference::faster || cell.difference == Difference::slower;
  return differs && cell.ratio ? cell.ratio->value : 1.0;
}

struct Regret {
  double sum = 0;
  double worst = 0;
  std::uint64_t worst_bytes = 0;
  std::size_t cases = 0;

  void add(double regret, std::uint64_t nbytes) {
    sum += regret;
    ++cases;
    if (regret <= worst) return;
    worst = regret;
    worst_bytes = nbytes;
  }

  std::string text() const {
    if (sum <= 0) return "nowhere slower than the best";
    return fmt::format("{:.1f} % slower than the best at each size on average, {:.1f} % at worst, at {}",
                       100 * sum / static_cast<double>(cases), 100 * worst, format_bytes(worst_bytes));
  }
};

/// Nothing for a variant that cannot be used in every case.
std::optional<Regret> total_regret(const Group& group, std::size_t variant) {
  Regret regret;
  for (const Comparison* comparison : group) {
    for (const ComparedCase& at : comparison->cases) {
      double best = 1;
      for (const VariantCell& cell : at.variants) best = std::min(best, certain_ratio(cell).value_or(1));
      const std::optional<double> own = certain_ratio(at.variants[variant]);
      if (!own) return std::nullopt;
      regret.add(*own / best - 1, at.row_case.nbytes);
    }
  }
  return regret;
}

/// NCCL's lists of two collectives are one list.
void merge(Environment& all, const Environment& more) {
  for (const auto& [name, value] : more) {
    const auto found = std::find_if(all.begin(), all.end(), [&, n = name](const auto& v) { return v.first == n; });
    if (found == all.end()) {
      all.emplace_back(name, value);
    } else if (found->second != value) {
      found->second += ";" + value;
    }
  }
}

std::string quote(const std::string& value) {
  const bool plain = value.find_first_of(" \t;'\"$`\\|&<>()*?[]#~!{}^") == std::string::npos;
  if (plain) return value;
  std::string result = "'";
  for (const char c : value) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string describe(const Group& group) {
  std::vector<std::string_view> names;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max(), most = 0;
  for (const Comparison* comparison : group) {
    names.push_back(comparison->collective->name);
    for (const ComparedCase& at : comparison->cases) {
      least = std::min<std::uint64_t>(least, at.row_case.nbytes);
      most = std::max<std::uint64_t>(most, at.row_case.nbytes);
    }
  }
  const std::string sizes =
      least == most ? format_bytes(least) : fmt::format("{} to {}", format_bytes(least), format_bytes(most));
  return fmt::format("{} on {} ranks, {}", fmt::join(names, ", "), group.front()->nranks, sizes);
}

}  // namespace

BestSetting best_setting(std::span<const Comparison> comparisons) {
  BestSetting result;
  Environment environment;
  result.text = "# The single best setting that `busbar compare` found.\n";
  for (const Group& group : group(comparisons)) {
    const std::optional<Regret> own = total_regret(group, 0);
    if (!own) continue;
    std::size_t best = 0;
    Regret least = *own;
    std::vector<std::string> unusable;
    for (std::size_t v = 1; v < group.front()->variants.size(); ++v) {
      const std::optional<Regret> regret = total_regret(group, v);
      if (!regret) unusable.push_back(group.front()->variants[v].label);
      if (!regret || regret->sum >= least.sum) continue;
      best = v;
      least = *regret;
    }
    const std::string& label = group.front()->variants[best].label;
    result.text += fmt::format("# {}:\n", describe(group));
    if (best == 0) {
      result.text += fmt::format("#   the library's own choice is best: {}; nothing to set\n", own->text());
    } else {
      result.text += fmt::format("#   {}: {}\n#   the library's own choice: {}\n", label, least.text(), own->text());
      for (const Comparison* c : group) merge(environment, variant_environment(c->variants[best], *c->collective));
    }
    if (!unusable.empty()) result.text += fmt::format("#   not usable at every size: {}\n", fmt::join(unusable, ", "));
  }
  for (const auto& [name, value] : environment) result.text += fmt::format("export {}={}\n", name, quote(value));
  result.changes_anything = !environment.empty();
  result.environment = std::move(environment);
  return result;
}

}  // namespace busbar
