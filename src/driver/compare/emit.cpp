#include "common/backends/mpi/mpi_algorithms.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "driver/compare/compare.h"
#include "driver/compare/variants.h"
#include "driver/launch/launching.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <system_error>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 2> kInRules{"ompi.algorithm", "ompi.segmentsize"};
// Settings that the table holds as a number of channels are in it as well.
constexpr std::array<std::string_view, 10> kInTable{
    "NCCL_ALGO",          "NCCL_PROTO",         "nccl.ctas",     "nccl.minCTAs",  "nccl.maxCTAs",
    "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MAX_NRINGS"};

/// `why`, of the first of the names that is not in the list; empty if all are.
template <class List>
std::string why_not_all(const List& list, std::span<const std::string> names, std::string_view why) {
  const auto found = std::ranges::find_if(names, [&](const std::string& name) { return !contains(list, name); });
  return found == names.end() ? std::string{} : fmt::format(fmt::runtime(why), *found);
}

/// The variants that a rule may name at this case: as good as the winner, and confidently better than the library.
std::vector<std::size_t> worthy(const ComparedCase& at, double delta) {
  std::vector<std::size_t> result;
  if (at.winner <= 0) return result;
  const double best_s = at.variants[at.winner].median_s;
  for (std::size_t v = 1; v < at.variants.size(); ++v) {
    const VariantCell& cell = at.variants[v];
    const bool faster = cell.usable() && cell.difference == Difference::faster;
    if (faster && cell.median_s <= best_s * (1 + delta)) result.push_back(v);
  }
  return result;
}

/// The variant for cases that a rule cannot tell apart; 0 unless one is worthy in all of them.
std::size_t choose(const Comparison& comparison, const std::vector<std::size_t>& cases, std::size_t former) {
  std::vector<std::size_t> common = worthy(comparison.cases[cases.front()], comparison.delta);
  for (const std::size_t i : cases) {
    const std::vector<std::size_t> here = worthy(comparison.cases[i], comparison.delta);
    std::erase_if(common, [&](std::size_t v) { return !contains(here, v); });
  }
  if (common.empty()) return 0;
  if (contains(common, former)) return former;
  const int winner = comparison.cases[cases.front()].winner;
  return contains(common, static_cast<std::size_t>(winner)) ? static_cast<std::size_t>(winner) : common.front();
}

/// What is decided at one measured size.
struct SizeChoice {
  std::uint64_t from_bytes = 0;    ///< as the rule's reader counts
  std::uint64_t next_bytes = 0;    ///< the next measured size, or one byte more than the last
  std::size_t variant = 0;         ///< 0: the library's own choice
  std::vector<std::size_t> cases;  ///< of Comparison::cases, which this size covers
};

std::string range_text(const SizeChoice& at) {
  return at.next_bytes == at.from_bytes + 1
             ? format_bytes(at.from_bytes)
             : fmt::format("{} to below {}", format_bytes(at.from_bytes), format_bytes(at.next_bytes));
}

/// Whether `next` begins where `rule` ends and says the same.
bool continues(const TunerRule& rule, const TunerRule& next) {
  TunerRule same = next;
  same.min_bytes = rule.min_bytes;
  same.max_bytes = rule.max_bytes;
  return same == rule && rule.max_bytes + 1 == next.min_bytes;
}

/// The table's line for one size, or why there is none.
struct TunerLine {
  TunerRule rule;
  std::string why_not;
};

TunerLine tuner_line(const Comparison& comparison, const SizeChoice& at) {
  const ShownAlgorithm& ran = comparison.cases[at.cases.front()].variants[at.variant].ran;
  for (const std::size_t i : at.cases) {
    const ShownAlgorithm& other = comparison.cases[i].variants[at.variant].ran;
    const bool same =
        other.algorithm == ran.algorithm && other.protocol == ran.protocol && other.channels == ran.channels;
    if (!same) return {{}, "types, operations or placements of this size ran differently"};
  }
  const auto collective = tuner_collective(comparison.collective->name);
  const auto algorithm = tuner_algorithm(ran.algorithm);
  const auto protocol = tuner_protocol(ran.protocol);
  if (!collective) return {{}, fmt::format("NCCL asks no tuner about {}", comparison.collective->name)};
  if (!algorithm || !protocol) {
    return {{}, fmt::format("what ran is not known well enough: {}/{}", ran.algorithm, ran.protocol)};
  }
  const int channels = number_of<int>(ran.channels).value_or(0);
  if (channels < 1 || channels > kMaxTunerChannels) {
    return {{}, fmt::format("the number of channels is not known: {}", ran.channels)};
  }
  return {{.collective = *collective,
           .min_bytes = at.from_bytes,
           .max_bytes = at.next_bytes - 1,
           .algorithm = *algorithm,
           .protocol = *protocol,
           .channels = channels,
           .nnodes = comparison.nnodes,
           .nranks = comparison.nranks},
          {}};
}

/// Rising in size. `bytes_of` returns the bytes by which the rule's reader decides.
std::vector<SizeChoice> choose_by_size(const Comparison& comparison,
                                       const std::function<std::uint64_t(const Case&)>& bytes_of) {
  std::map<std::uint64_t, std::vector<std::size_t>> sizes;
  for (std::size_t i = 0; i < comparison.cases.size(); ++i) sizes[bytes_of(comparison.cases[i].row_case)].push_back(i);
  std::vector<SizeChoice> choices;
  for (auto at = sizes.begin(); at != sizes.end(); ++at) {
    const auto next = std::next(at);
    const std::size_t former = choices.empty() ? 0 : choices.back().variant;
    choices.push_back({at->first, next == sizes.end() ? at->first + 1 : next->first,
                       choose(comparison, at->second, former), at->second});
  }
  return choices;
}

/// One comparison per collective: types and operations, which have tables of their own, share what follows.
std::vector<Comparison> join_by_collective(std::span<const Comparison> comparisons) {
  std::vector<Comparison> joined;
  for (const Comparison& c : comparisons) {
    const auto found = std::ranges::find_if(joined, [&](const Comparison& other) {
      return other.collective == c.collective && other.variants.size() == c.variants.size();
    });
    if (found == joined.end()) {
      joined.push_back(c);
    } else {
      found->cases.insert(found->cases.end(), c.cases.begin(), c.cases.end());
    }
  }
  return joined;
}

/// Whether all settings name the collective when they become variables.
bool of_one_collective(const Comparison& comparison) {
  constexpr std::array<std::string_view, 4> kNames{"ompi.algorithm", "ompi.segmentsize", "NCCL_ALGO", "NCCL_PROTO"};
  return std::ranges::all_of(comparison.variants, [&](const Variant& variant) {
    return std::ranges::all_of(variant.settings, [&](const auto& setting) { return contains(kNames, setting.first); });
  });
}

/// Comparisons for which one variant is chosen.
using Group = std::vector<const Comparison*>;

std::vector<Group> group(std::span<const Comparison> comparisons) {
  std::vector<Group> groups;
  for (const Comparison& c : comparisons) {
    const auto found = std::ranges::find_if(groups, [&](const Group& g) {
      return !of_one_collective(c) &&
             std::ranges::equal(g.front()->variants, c.variants, {}, &Variant::settings, &Variant::settings);
    });
    if (found == groups.end()) {
      groups.push_back({&c});
    } else {
      found->push_back(&c);
    }
  }
  return groups;
}

/// What a variant's regret at one size may be, the time over that of the fastest, less 1. Nothing if a ratio of its
/// own is missing: what is not known is no gain. Rivals without one count for nothing.
std::optional<double> regret_bound(const Comparison& comparison, const ComparedCase& at, std::size_t variant) {
  const VariantCell& own = at.variants[variant];
  if (!own.usable() || !own.ratio) return std::nullopt;
  double bound = 0;
  for (std::size_t v = 0; v < at.variants.size(); ++v) {
    const VariantCell& rival = at.variants[v];
    if (v == variant || !rival.usable() || !rival.ratio) continue;
    // The upper bound of its time over the rival's.
    if (const auto direct = ratio_between(rival, own, comparison.between_launches)) {
      bound = std::max(bound, direct->interval.high - 1);
    } else if (rival.ratio->interval.low > 0) {
      bound = std::max(bound, own.ratio->interval.high / rival.ratio->interval.low - 1);
    }
  }
  return bound;
}

struct Regret {
  double worst = 0;
  std::uint64_t worst_bytes = 0;
  bool faster_somewhere = false;

  std::string text(double delta) const {
    if (worst <= delta) return fmt::format("at no size measured more than {:.3g} % slower than the best", 100 * delta);
    return fmt::format("at most {:.1f} % slower than the best, at {}", 100 * worst, format_bytes(worst_bytes));
  }
};

/// Nothing for a variant whose ratio is not known at every size.
std::optional<Regret> most_regret(const Group& group, std::size_t variant) {
  Regret most;
  for (const Comparison* comparison : group) {
    for (const ComparedCase& at : comparison->cases) {
      const std::optional<double> bound = regret_bound(*comparison, at, variant);
      if (!bound) return std::nullopt;
      if (*bound > most.worst) most = {*bound, at.row_case.nbytes, most.faster_somewhere};
      most.faster_somewhere = most.faster_somewhere || at.variants[variant].difference == Difference::faster;
    }
  }
  return most;
}

/// NCCL's lists of two collectives are one list.
void merge(EnvironmentSettings& all, const EnvironmentSettings& more) {
  for (const auto& [name, value] : more) {
    const auto found = std::ranges::find_if(all, [&, n = name](const auto& v) { return v.first == n; });
    if (found == all.end()) {
      all.emplace_back(name, value);
    } else if (found->second != value) {
      found->second += ";" + value;
    }
  }
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

namespace fs = std::filesystem;

/// Returns the whole name that it really got.
std::string write_emitted(const std::string& path, std::string_view option, const std::string& text) {
  const std::string name = write_new_file(path, option, text);
  std::error_code unknown;
  const fs::path absolute = fs::absolute(name, unknown);
  return unknown ? name : absolute.string();
}

void announce(const std::string& text) {
  if (!write_stdout(text)) throw_bad_config("stdout takes no more output");
}

std::string nothing_gained(std::string_view option, const std::string& path) {
  return fmt::format(
      "#\n# {} {}: not written, because nowhere is a gain confident and above the band: the library's own choice "
      "stands\n",
      option, path);
}

Emitted emitted(Emitted::Kind kind, const std::string& path, std::span<const Comparison> comparisons) {
  Emitted result;
  result.kind = kind;
  result.path = path;
  result.environment = environment_of_file(kind, path);
  // The sizes at which a file changes something: of a table those with an entry, of a setting all.
  for (const Comparison& c : join_by_collective(comparisons)) {
    std::set<std::uint64_t> sizes;
    for (const SizeChoice& at : choose_by_size(c, [](const Case& k) { return k.nbytes; })) {
      if (kind == Emitted::Kind::environment || at.variant > 0) sizes.insert(at.from_bytes);
    }
    if (!sizes.empty()) result.targets.push_back({c.collective, {sizes.begin(), sizes.end()}});
  }
  result.nranks = comparisons.front().nranks;
  return result;
}

void emit_ompi_rules(const std::string& path, std::span<const Comparison> comparisons, std::vector<Emitted>& files) {
  constexpr std::string_view kOption = "--emit-ompi-rules";
  const std::vector<OmpiRule> rules = ompi_rules(comparisons);
  if (rules.empty()) return announce(nothing_gained(kOption, path));
  const std::string written = write_emitted(path, kOption, ompi_rules_text(rules));
  const auto forced =
      static_cast<std::size_t>(std::ranges::count_if(rules, [](const OmpiRule& r) { return r.algorithm != 0; }));
  announce(
      fmt::format("#\n# wrote {}: {} for {} ranks\n# use it: mpirun --mca coll_tuned_use_dynamic_rules 1 --mca "
                  "coll_tuned_dynamic_rules_filename {} ...\n",
                  written, counted(forced, "rule"), comparisons.front().nranks, written));
  files.push_back(emitted(Emitted::Kind::ompi_rules, written, comparisons));
}

void emit_tuner(const std::string& path, std::span<const Comparison> comparisons, std::vector<Emitted>& files) {
  constexpr std::string_view kOption = "--emit-tuner";
  const TunerTable table = tuner_rules(comparisons);
  std::string left_out;
  for (const std::string& what : table.left_out) left_out += remark_lines("not in the table: " + what);
  if (table.rules.empty()) return announce(nothing_gained(kOption, path) + left_out);
  const std::string written = write_emitted(path, kOption, tuner_csv(table.rules));
  const auto variables = environment_of_file(Emitted::Kind::tuner, written);
  std::string use;
  for (const auto& [name, value] : variables) use += fmt::format("{}={} ", name, value);
  announce(fmt::format("#\n# wrote {}: {}\n{}# use it: {}mpirun ... (with -x for each if the launcher needs it)\n",
                       written, counted(table.rules.size(), "line"), left_out, use));
  files.push_back(emitted(Emitted::Kind::tuner, written, comparisons));
}

void emit_environment(const std::string& path, std::span<const Comparison> comparisons, std::vector<Emitted>& files) {
  const BestSetting best = best_setting(comparisons);
  if (path == "-") return announce("#\n" + best.text);
  const std::string written = write_emitted(path, "--emit-env", best.text);
  if (!best.changes_anything) {
    return announce(fmt::format("#\n# wrote {}: nothing to set, the library's own choice is best\n", written));
  }
  announce(
      fmt::format("#\n# wrote {}\n# use it: . {} before mpirun (which passes OMPI_MCA_* on; others need -x NAME)\n",
                  written, written));
  Emitted result = emitted(Emitted::Kind::environment, written, comparisons);
  result.environment = best.environment;
  files.push_back(std::move(result));
}

}  // namespace

std::vector<OmpiRule> ompi_rules(std::span<const Comparison> comparisons) {
  std::vector<OmpiRule> rules;
  for (const Comparison& c : join_by_collective(comparisons)) {
    const CollectiveId id = c.collective->id;
    if (ompi_collective(id) == nullptr) continue;  // no variant of it can have won
    std::size_t former = 0;
    const auto add = [&](std::uint64_t from_bytes, std::size_t variant) {
      const OmpiChoice choice = ompi_choice(c.variants[variant], *c.collective);
      if (variant != former) rules.push_back({id, c.nranks, from_bytes, choice.algorithm, choice.segment_bytes});
      former = variant;
    };
    const auto choices = choose_by_size(c, [&](const Case& k) { return ompi_rule_bytes(id, k.problem); });
    for (const SizeChoice& at : choices) add(at.from_bytes, at.variant);
    if (!choices.empty()) add(choices.back().next_bytes, 0);
  }
  return rules;
}

TunerTable tuner_rules(std::span<const Comparison> comparisons) {
  TunerTable table;
  for (const Comparison& c : join_by_collective(comparisons)) {
    for (const SizeChoice& at : choose_by_size(c, [](const Case& k) { return k.nbytes; })) {
      if (at.variant == 0) continue;
      TunerLine line = tuner_line(c, at);
      if (!line.why_not.empty()) {
        table.left_out.push_back(fmt::format("{} at {}, {}: {}", c.collective->name, range_text(at),
                                             c.variants[at.variant].label, line.why_not));
      } else if (!table.rules.empty() && continues(table.rules.back(), line.rule)) {
        table.rules.back().max_bytes = line.rule.max_bytes;
      } else {
        table.rules.push_back(line.rule);
      }
    }
  }
  return table;
}

std::string why_no_ompi_rules(std::span<const std::string> varied_names) {
  return why_not_all(
      kInRules, varied_names,
      "Open MPI's rules files hold algorithms and segment sizes, not {}; vary ompi.algorithm, or use --emit-env");
}

std::string why_no_tuner_table(std::span<const std::string> varied_names) {
  return why_not_all(kInTable, varied_names,
                     "NCCL's tuners choose algorithm, protocol and channels, not {}; vary NCCL_ALGO and NCCL_PROTO, or "
                     "use --emit-env");
}

std::string why_no_environment(std::span<const std::string> varied_names) {
  const auto odd = std::ranges::find_if_not(varied_names, has_environment);
  if (odd == varied_names.end()) return {};
  return fmt::format(
      "no environment variable sets {}, which only communicators take: leave it out of --vary, or the file", *odd);
}

std::string emission_hint(std::span<const std::string> varied_names) {
  const auto winners = [](std::string_view option) {
    return fmt::format("to keep the winners as settings of every launch, add {}; --verify tests them in new launches",
                       option);
  };
  if (why_no_ompi_rules(varied_names).empty()) return winners("--emit-ompi-rules FILE");
  if (why_no_tuner_table(varied_names).empty()) return winners("--emit-tuner FILE.csv");
  if (!why_no_environment(varied_names).empty()) return {};
  return "to keep the best single setting for every launch, add --emit-env FILE; --verify tests it in new launches";
}

BestSetting best_setting(std::span<const Comparison> comparisons) {
  BestSetting result;
  EnvironmentSettings environment;
  result.text = "# The single best setting that `busbar compare` found.\n";
  for (const Group& group : group(comparisons)) {
    const double delta = group.front()->delta;
    const std::optional<Regret> own = most_regret(group, 0);
    if (!own) continue;
    std::size_t best = 0;
    Regret least = *own;
    std::vector<std::string> unknown;
    for (std::size_t v = 1; v < group.front()->variants.size(); ++v) {
      const std::optional<Regret> regret = most_regret(group, v);
      if (!regret) unknown.push_back(group.front()->variants[v].label);
      if (!regret || regret->worst >= least.worst || !regret->faster_somewhere) continue;
      best = v;
      least = *regret;
    }
    const std::string& label = group.front()->variants[best].label;
    result.text += fmt::format("# {}:\n", describe(group));
    if (best == 0) {
      result.text += fmt::format("#   no setting is surely better than the library's own choice: {}; nothing to set\n",
                                 own->text(delta));
    } else {
      result.text +=
          fmt::format("#   {}: {}\n#   the library's own choice: {}\n", label, least.text(delta), own->text(delta));
      for (const Comparison* c : group) merge(environment, variant_environment(c->variants[best], *c->collective));
    }
    if (!unknown.empty()) {
      result.text +=
          fmt::format("#   left out, not usable or without a ratio at some size: {}\n", fmt::join(unknown, ", "));
    }
  }
  for (const auto& [name, value] : environment)
    result.text += fmt::format("export {}={}\n", name, quote_for_shell(value));
  result.changes_anything = !environment.empty();
  result.environment = std::move(environment);
  return result;
}

EnvironmentSettings environment_of_file(Emitted::Kind kind, const std::string& path) {
  if (kind == Emitted::Kind::ompi_rules) {
    return {{"OMPI_MCA_coll_tuned_use_dynamic_rules", "1"}, {"OMPI_MCA_coll_tuned_dynamic_rules_filename", path}};
  }
  if (kind == Emitted::Kind::environment) return {};
  std::error_code unknown;
  const fs::path plugin = fs::read_symlink("/proc/self/exe", unknown).parent_path() / "libbusbar_tuner.so";
  return {{"NCCL_TUNER_PLUGIN", plugin.string()}, {"NCCL_TUNER_CONFIG_FILE", path}};
}

void check_folder(const std::string& path, std::string_view option) {
  if (path.empty() || path == "-") return;
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw_bad_config(fmt::format("{} {}: {}: {}; name a file in a folder that exists and may be written", option, path,
                               folder.string(), std::strerror(errno)));
}

void check_emission(const CompareOptions& options) {
  const std::vector<std::string> names = mapped(options.vary, &Varied::name);
  const auto check = [&](const std::string& path, std::string_view option, const std::string& why_not) {
    if (path.empty()) return;
    if (!why_not.empty()) throw_bad_config(fmt::format("{}: {}", option, why_not));
    check_folder(path, option);
  };
  check(options.emit_ompi_rules, "--emit-ompi-rules", why_no_ompi_rules(names));
  check(options.emit_tuner, "--emit-tuner", why_no_tuner_table(names));
  check(options.emit_env, "--emit-env", why_no_environment(names));
  const bool any_file = !options.emit_ompi_rules.empty() || !options.emit_tuner.empty() ||
                        (!options.emit_env.empty() && options.emit_env != "-");
  if (options.verify && !any_file)
    throw_bad_config("--verify needs a file to verify: add --emit-ompi-rules, --emit-tuner or --emit-env FILE");
}

std::vector<Emitted> emit_files(const CompareOptions& options, std::span<const Comparison> comparisons) {
  std::vector<Emitted> files;
  if (comparisons.empty()) return files;
  if (!options.emit_ompi_rules.empty()) emit_ompi_rules(options.emit_ompi_rules, comparisons, files);
  if (!options.emit_tuner.empty()) emit_tuner(options.emit_tuner, comparisons, files);
  if (!options.emit_env.empty()) emit_environment(options.emit_env, comparisons, files);
  return files;
}

}  // namespace busbar
