#include "programs/busbar/driver.h"

#include "common/base/embedded_file.h"
#include "common/base/error.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/processes/launcher.h"
#include "driver/command/subcommand.h"
#include "driver/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace busbar {
namespace {

std::string driver_help() {
  std::string text = "usage: busbar SUBCOMMAND [arguments]\n\n";
  for (const Subcommand& s : all_subcommands()) text += fmt::format("  {:<12} {}\n", s.name, s.summary);
  return text +
         "\n`busbar help SUBCOMMAND` describes one; the benchmarks are separate executables (all_reduce_perf, "
         "...).\n`busbar --licenses` prints the licenses of busbar and of all that is linked and embedded.\n";
}

}  // namespace

int run_driver(int argc, char** argv) {
  // Under a launcher every rank comes here; rank 0 prints for all.
  const bool is_root = command_launch().rank <= 0;
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "help" && argc > 2) {
    char asks[] = "--help";
    char* words[] = {argv[0], argv[2], asks, nullptr};
    return run_driver(3, words);
  }
  if (word == "--help" || word == "-h" || word == "help") {
    if (is_root) fmt::print("{}", driver_help());
    return code_of(ExitCode::good);
  }
  // Before all else: a subcommand that examines machines must not begin to.
  const auto asks_version = [](const char* asked) { return std::string_view(asked) == "--version"; };
  if (word == "-V" || word == "version" || std::any_of(argv, argv + argc, asks_version)) {
    if (is_root) fmt::print("busbar {}\n", BUSBAR_VERSION);
    return code_of(ExitCode::good);
  }
  if (word == "--licenses") {
    for (const EmbeddedFile& file : embedded_licenses())
      if (is_root) fmt::print("{}\n", file.text);
    return code_of(ExitCode::good);
  }
  const auto subcommands = all_subcommands();
  const auto found = std::ranges::find_if(subcommands, [&](const Subcommand& s) { return s.name == word; });
  if (found != subcommands.end()) return found->run(argc - 1, argv + 1);
  if (!is_root) return code_of(ExitCode::good);
  std::vector<std::string> names;
  for (const Subcommand& s : subcommands) names.emplace_back(s.name);
  const std::string nearest = nearest_choice(word, names);
  say("error: {}{}", word.empty() ? "which subcommand?" : fmt::format("unknown subcommand {}", in_quotes(word)),
      nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  write_stderr("\n" + driver_help());
  return code_of(ExitCode::bad_config);
}

std::span<const Subcommand> all_subcommands() {
  static constexpr std::array kSubcommands{
      Subcommand{"accept", "is this cluster good, and if not, where is it bad? A plan, a verdict, a report",
                 &run_accept},
      Subcommand{"compare", "compare settings of the library with its default: which is faster at which size",
                 [](int argc, char** argv) { return run_compare(argc, argv, {}); }},
      Subcommand{"diagnose", "find out from its logs why a job hung, failed or is slow", &run_diagnose},
      Subcommand{"doctor", "check every node, before a job runs, for what makes jobs slow or hang", &run_doctor},
      Subcommand{"fingerprint", "find out which algorithm Open MPI runs, from what each rank sends", &run_fingerprint},
      Subcommand{"history", "list, show and compare the results of earlier runs, also over time", &run_history},
      Subcommand{"locate", "find the slow node, link, direction or rank, by name and with counts", &run_locate},
      Subcommand{"merge", "combine launches of a benchmark into one result, with its launch-to-launch interval",
                 &run_merge},
      Subcommand{"repeat", "launch a benchmark several times: one number for a paper or a ticket", &run_repeat},
      Subcommand{"report", "show result files in one HTML file with charts", &run_report},
      Subcommand{"triage", "find out from outside why a running job stands still, whatever program it is", &run_triage},
      Subcommand{"workload", "find out what a job communicates, and if that bounds it, from its traces", &run_workload},
  };
  return kSubcommands;
}

}  // namespace busbar
