#include "driver/compare/compare_emit.h"

#include "common/base/error.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "driver/compare/emit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace busbar {
namespace {

namespace fs = std::filesystem;

/// The name that it really got.
std::string write_new_file(const std::string& path, std::string_view option, const std::string& text) {
  NewFile file = create_new_file(path, option);
  std::FILE* stream = file.stream.release();
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  if (std::fclose(stream) != 0 || !written)
    throw_bad_config(fmt::format("{} {}: {}", option, file.path, std::strerror(errno)));
  std::error_code unknown;
  const fs::path absolute = fs::absolute(file.path, unknown);
  return unknown ? file.path : absolute.string();
}

void say(const std::string& text) {
  if (!write_stdout(text)) throw_bad_config("stdout takes no more output");
}

std::string plural(std::size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

/// The sizes at which a table has an entry of its own.
std::vector<Emitted::Target> changed_sizes(std::span<const Comparison> comparisons) {
  std::vector<Emitted::Target> targets;
  for (const Comparison& c : join_by_collective(comparisons)) {
    Emitted::Target target{.collective = c.collective, .sizes = {}};
    for (const SizeChoice& at : choose_by_size(c, [](const Case& k) { return k.nbytes; })) {
      if (at.variant > 0) target.sizes.push_back(c.cases[at.cases.front()].row_case.nbytes);
    }
    if (!target.sizes.empty()) targets.push_back(std::move(target));
  }
  return targets;
}

std::vector<Emitted::Target> all_sizes(std::span<const Comparison> comparisons) {
  std::vector<Emitted::Target> targets;
  for (const Comparison& c : join_by_collective(comparisons)) {
    Emitted::Target target{.collective = c.collective, .sizes = {}};
    for (const ComparedCase& at : c.cases) target.sizes.push_back(at.row_case.nbytes);
    std::sort(target.sizes.begin(), target.sizes.end());
    target.sizes.erase(std::unique(target.sizes.begin(), target.sizes.end()), target.sizes.end());
    targets.push_back(std::move(target));
  }
  return targets;
}

std::string nothing_gained(std::string_view option, const std::string& path) {
  return fmt::format(
      "#\n# {} {}: not written, because nowhere is a gain confident and above the band: the library's own "
      "choice stands\n",
      option, path);
}

Emitted emitted(Emitted::Kind kind, const std::string& path, std::span<const Comparison> comparisons) {
  Emitted result;
  result.kind = kind;
  result.path = path;
  result.environment = environment_of_file(kind, path);
  result.targets = kind == Emitted::Kind::environment ? all_sizes(comparisons) : changed_sizes(comparisons);
  result.nranks = comparisons.front().nranks;
  return result;
}

void emit_ompi_rules(const std::string& path, std::span<const Comparison> comparisons, std::vector<Emitted>& files) {
  constexpr std::string_view kOption = "--emit-ompi-rules";
  const std::vector<OmpiRule> rules = ompi_rules(comparisons);
  if (rules.empty()) return say(nothing_gained(kOption, path));
  const std::string written = write_new_file(path, kOption, ompi_rules_text(rules));
  const auto forced = static_cast<std::size_t>(
      std::count_if(rules.begin(), rules.end(), [](const OmpiRule& r) { return r.algorithm != 0; }));
  say(
      fmt::format("#\n# wrote {}: {} for {} ranks\n# use it: mpirun --mca coll_tuned_use_dynamic_rules 1 --mca "
                  "coll_tuned_dynamic_rules_filename {} ...\n",
                  written, plural(forced, "rule"), comparisons.front().nranks, written));
  files.push_back(emitted(Emitted::Kind::ompi_rules, written, comparisons));
}

void emit_tuner(const std::string& path, std::span<const Comparison> comparisons, std::vector<Emitted>& files) {
  constexpr std::string_view kOption = "--emit-tuner";
  const TunerTable table = tuner_rules(comparisons);
  std::string left_out;
  for (const std::string& what : table.left_out) left_out += remark_lines("not in the table: " + what);
  if (table.rules.empty()) return say(nothing_gained(kOption, path) + left_out);
  const std::string written = write_new_file(path, kOption, tuner_csv(table.rules));
  const auto variables = environment_of_file(Emitted::Kind::tuner, written);
  std::string use;
  for (const auto& [name, value] : variables) use += fmt::format("{}={} ", name, value);
  say(fmt::format("#\n# wrote {}: {}\n{}# use it: {}mpirun ... (with -x for each where the launcher needs it)\n",
                  written, plural(table.rules.size(), "line"), left_out, use));
  files.push_back(emitted(Emitted::Kind::tuner, written, comparisons));
}

void emit_environment(const std::string& path, std::span<const Comparison> comparisons, std::vector<Emitted>& files) {
  const BestSetting best = best_setting(comparisons);
  if (path == "-") return say("#\n" + best.text);
  const std::string written = write_new_file(path, "--emit-env", best.text);
  if (!best.changes_anything) {
    return say(fmt::format("#\n# wrote {}: nothing to set, the library's own choice is best\n", written));
  }
  say(fmt::format("#\n# wrote {}\n# use it: . {} before mpirun (which passes OMPI_MCA_* on; others need -x NAME)\n",
                  written, written));
  Emitted result = emitted(Emitted::Kind::environment, written, comparisons);
  result.environment = best.environment;
  files.push_back(std::move(result));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> environment_of_file(Emitted::Kind kind, const std::string& path) {
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
  std::vector<std::string> names;
  for (const Varied& v : options.vary) names.push_back(v.name);
  const auto check = [&](const std::string& path, std::string_view option, const std::string& why_not) {
    if (path.empty()) return;
    if (!why_not.empty()) throw_bad_config(fmt::format("{}: {}", option, why_not));
    check_folder(path, option);
  };
  check(options.emit_ompi_rules, "--emit-ompi-rules", why_no_ompi_rules(names));
  check(options.emit_tuner, "--emit-tuner", why_no_tuner_table(names));
  check(options.emit_env, "--emit-env", "");
  const bool any_file = !options.emit_ompi_rules.empty() || !options.emit_tuner.empty() ||
                        (!options.emit_env.empty() && options.emit_env != "-");
  if (options.verify && !any_file) {
    throw_bad_config("--verify needs a file to verify: add --emit-ompi-rules, --emit-tuner or --emit-env FILE");
  }
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
