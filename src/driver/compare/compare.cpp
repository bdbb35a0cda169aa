#include "driver/compare/compare.h"

#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/job/session_job.h"
#include "common/processes/child.h"
#include "common/processes/comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace busbar {
namespace {

void add_collectives(CompareOptions& options, std::string_view list) {
  for (const std::string_view name : split_list(list)) {
    const Collective* collective = find_collective(name);
    if (collective == nullptr) throw_bad_config(unknown_choice("collective", name, collective_names()));
    if (!contains(options.collectives, collective)) options.collectives.push_back(collective);
  }
}

/// The options of compare alone; their values go into `o`.
std::vector<OwnOption> own_options(CompareOptions& o) {
  using Text = std::string_view;
  return {
      {"vary", "NAME=V1,V2", "a setting and the values to try; several: all combinations",
       [&](Text t) { o.vary.push_back(parse_vary(t)); }},
      {"delta", "X%", "differences within this band do not count (default: 2 %)",
       [&](Text t) { o.delta = parse_below_half(t, "a band below 50 %, such as 2%"); }},
      {"refine", "", "measure between the sizes where the lead changes, down to 10 %", [&](Text) { o.refine = true; }},
      {"launch", "COMMAND", "give each variant launches of its own, by this command", into(o.launch)},
      {"launches", "N", "with --launch: launches of each variant (default: 8)",
       [&](Text t) { o.launches = parse_int(t, 6, 1000); }},
      {"launch-timeout", "SECONDS", "end a launch that takes longer, and continue without its variant",
       into(o.launch_timeout_s, parse_duration)},
      {"emit-tuner", "FILE.csv", "write the best settings as a decision table of NCCL's tuner",
       into(o.emit_tuner, parse_file_name)},
      {"emit-ompi-rules", "FILE", "write the best algorithms as Open MPI's rules file",
       into(o.emit_ompi_rules, parse_file_name)},
      {"emit-env", "FILE", "write the single best setting as environment variables", into(o.emit_env, parse_file_name)},
      {"verify", "", "with an emitted file: launch again with and without it, and report the gain",
       [&](Text) { o.verify = true; }},
      {"verify-file", "FILE", "compare nothing; launch with and without this emitted file, report the gain",
       into(o.verify_file, parse_file_name)},
  };
}

/// The same in a file, under the long names; collectives and vary are lists there.
std::vector<YamlKey> file_keys(CompareOptions& options, const std::vector<OwnOption>& own) {
  std::vector<YamlKey> keys;
  keys.push_back({"collectives", [&](const YamlValue& value) {
                    const std::vector<std::string> names = value.texts();
                    value.checked([&] {
                      for (const std::string& name : names) add_collectives(options, name);
                    });
                  }});
  keys.push_back({"vary", [&](const YamlValue& value) {
                    value.each([&](const YamlValue& item) {
                      const std::vector<std::string> values = item.texts();
                      item.as(value.key).checked(
                          [&] { options.vary.push_back(make_varied(std::string(item.key), values)); });
                    });
                  }});
  for (YamlKey& key : own_file_keys(own)) {
    if (key.name != "vary") keys.push_back(std::move(key));
  }
  return keys;
}

/// Options of the benchmarks that compare would have to ignore.
void refuse_what_compare_ignores(const Configured& configured) {
  constexpr auto kMeaningless = std::to_array<std::string_view>(
      {"iters", "warmup_iters", "average", "rel-ci", "min-time", "epochs", "per-rank", "skew", "samples", "memory",
       "show-algo", "show-prediction", "report_timestamps", "fail-on-skip"});
  for (const Setting& setting : configured.settings) {
    if (!contains(kMeaningless, setting.option->long_name)) continue;
    throw_bad_config(
        fmt::format("--{} has no meaning in compare, which takes as many rounds as it needs to tell the variants "
                    "apart: leave it out (--max-time and --cell-time bound it)",
                    setting.option->long_name));
  }
  if (configured.config.placement == Placements::both)
    throw_bad_config("compare measures one placement: --placement out or in");
  if (!configured.config.split.empty()) throw_bad_config("compare does not split the job: unset NCCL_TESTS_SPLIT");
}

/// The command line and the file together.
struct CompareArguments {
  CompareOptions options;
  Configured configured;  ///< stat is set: compare's clockwork is the statistical mode's
  CommandLine line;       ///< the benchmarks' options on the command line
};

/// Reads everything; `file` is the text of --config, or nothing yet: then nothing counts as missing that a file may
/// still bring. The command line wins: its --vary and its collectives replace the file's. Throws Error(bad_config).
CompareArguments read_compare_arguments(int argc, const char* const* argv, const std::optional<ConfigFile>& file,
                                        const ReadEnvironment& environment) {
  // Everything is applied twice: once to learn what the command line sets, and again over the file.
  CompareOptions line_only;
  CompareArguments result;
  result.line = scan_arguments(argc, argv, own_options(line_only));
  for (const std::string& word : result.line.words) add_collectives(line_only, word);
  if (result.line.action != CommandLine::Action::run) return result;

  const std::vector<OwnOption> own = own_options(result.options);
  const std::vector<YamlKey> keys = file_keys(result.options, own);
  Config defaults;
  defaults.stat = true;
  defaults.placement = Placements::out;
  defaults.show_algo = true;  // what ran is asked once per size and variant
  result.configured = configure(result.line, file, environment, defaults, keys);
  if (!line_only.vary.empty()) result.options.vary.clear();
  if (!line_only.collectives.empty()) result.options.collectives.clear();
  (void)scan_arguments(argc, argv, own);
  for (const std::string& word : result.line.words) add_collectives(result.options, word);

  refuse_what_compare_ignores(result.configured);
  if (result.options.launch.empty()) check_vary_in_one_job(result.options.vary);
  const bool with_device_kernels =
      std::ranges::any_of(result.options.vary, [](const Varied& v) { return v.name == kDeviceKernel; });
  if (with_device_kernels && result.configured.config.local_register != 2)
    throw_bad_config("device kernels work in symmetric windows: add -R 2");
  if (result.configured.config.nonblocking) check_vary_nonblocking(result.options.vary);
  if (!file && !result.line.config_file.empty()) return result;
  if (result.options.collectives.empty())
    throw_bad_config("which collective? busbar compare all_reduce --vary NAME=V1,V2");
  if (result.options.vary.empty() && result.options.verify_file.empty()) {
    throw_bad_config(
        "vary what? --vary ompi.algorithm=all (Open MPI), --vary mpich.algorithm=all (MPICH), --vary "
        "NCCL_ALGO=Ring,Tree (NCCL)");
  }
  return result;
}

/// Refuses --launch and --verify-file for ranks of a job.
void check_in_one_job(const CompareOptions& options) {
  if (!options.launch.empty() && !options.verify) {
    throw_bad_config(
        "--launch starts jobs itself: start busbar without a launcher (with --verify it may say how to launch "
        "again)");
  }
  if (!options.verify_file.empty())
    throw_bad_config("--verify-file starts jobs itself: start busbar without a launcher, with --launch");
  check_vary_in_one_job(options.vary);
}

int run_compare_process(const Launch& detected, int argc, char** argv, const WrapVariant& wrap) {
  CompareArguments before = read_compare_arguments(argc, argv, std::nullopt, ::getenv);
  const auto help = [&] { return help_of("compare", own_options(before.options)); };
  if (const auto code = help_or_version(detected, before.line.action, help)) return *code;
  const Launch launch = chosen_launch(before.line);
  if (!launch.launched()) {
    const std::optional<ConfigFile> file = read_config_file(before.line.config_file);
    const CompareArguments alone = read_compare_arguments(argc, argv, file, ::getenv);
    if (!alone.options.launch.empty()) {
      return code_of(run_launch_comparison({argv, static_cast<std::size_t>(argc)}, alone.options, alone.configured));
    }
  }
  const auto user_environment = read_user_environment();
  prepare_ompi_variation();
  std::vector<Emitted> emitted;
  CompareArguments arguments;
  const auto work = [&](Job& job) {
    const std::optional<ConfigFile> file = agree_on_config_file(job, before.line.config_file);
    collectively(job.world(), "reading the options", [&] {
      arguments = read_compare_arguments(argc, argv, file, ::getenv);
      check_in_one_job(arguments.options);
    });
    return run_compare_job({argv, static_cast<std::size_t>(argc)}, arguments.options, arguments.configured.config, wrap,
                           job, emitted);
  };
  const int code = run_session(argc, argv, launch, mpi_start(before.line), work);
  // MPI is over: what follows are jobs of their own.
  if (code != code_of(ExitCode::good) || !arguments.options.verify || emitted.empty()) return code;
  return code_of(verify_emitted(emitted, arguments.options, arguments.configured, user_environment));
}

}  // namespace

int run_compare(int argc, char** argv, const WrapVariant& wrap) {
  const Launch launch = detect_launch();
  return run_with_children(launch, [&] { return run_compare_process(launch, argc, argv, wrap); });
}

}  // namespace busbar
