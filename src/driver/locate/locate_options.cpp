#include "driver/locate/locate_options.h"

#include "common/base/error.h"
#include "common/base/suggest.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace busbar {
namespace {

[[noreturn]] void fail(const std::string& text) { throw Error(ExitCode::bad_config, text); }

UnitChoice parse_unit(std::string_view text) {
  const std::vector<std::string> names{"auto", "host", "rank"};
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<UnitChoice>(found - names.begin());
  const std::string nearest = nearest_choice(text, names);
  fail(fmt::format("unknown unit {}{}; choose from: {}", in_quotes(text),
                   nearest.empty() ? "" : fmt::format(", did you mean {}?", nearest), fmt::join(names, " ")));
}

double parse_share(std::string_view text) {
  const double share = parse_fraction(text);
  if (!(share > 0 && share < 1)) fail(fmt::format("{} is no share of the median, such as 0.8 or 80%", in_quotes(text)));
  return share;
}

/// "412G", in 1e9 B/s with no unit: as busbw is printed.
double parse_bandwidth(std::string_view text) { return 1e9 * parse_double(text, 1e-6, 1e6); }

std::vector<OwnOption> own_options(LocateArguments& a) {
  using Text = std::string_view;
  SearchOptions& search = a.options.search;
  std::vector<OwnOption> own = {
      {"full", "", "every pair once, suspect pairs again: finds a single bad link", [&](Text) { search.full = true; }},
      {"direction", "", "also one way at a time: does it send or receive slowly?",
       [&](Text) { search.direction = true; }},
      {"rail", "[=N]", "also each local rank by itself, of suspects: which NIC? the first N only",
       [&](Text t) { search.rails = t.empty() ? -1 : parse_int(t, 1, 1024); }},
      {"halving", "", "from 8 hosts on screen by halves: faults that only large groups show",
       [&](Text) { search.halving = true; }},
      {"soak", "TIME", "repeat matchings for so long: faults that come and go; 15min",
       [&](Text t) { search.soak_s = parse_duration(t); }},
      {"matchings", "N", "random matchings, 4 as a rule", [&](Text t) { search.matchings = parse_int(t, 1, 1000); }},
      {"confirmations", "N", "of each suspect, with partners that were good; 3 as a rule",
       [&](Text t) { search.confirmations = parse_int(t, 1, 100); }},
      {"warn", "SHARE", "slower than this share of the median is a WARN; 0.9",
       [&](Text t) { search.warn = parse_share(t); }},
      {"fail", "SHARE", "slower than this share of the median is a FAIL; 0.8",
       [&](Text t) { search.fail = parse_share(t); }},
      {"expected", "GB/S", "what a healthy pair reaches: then two units can be told apart",
       [&](Text t) { search.expected_bandwidth = parse_bandwidth(t); }},
      {"unit", "host|rank", "what may be slow; hosts as a rule, ranks where there is one host",
       [&](Text t) { a.options.unit = parse_unit(t); }},
      {"round-time", "TIME", "of the measurement in each round; 1 s",
       [&](Text t) { a.options.round_s = parse_duration(t); }},
      {"repetitions", "N", "of each pair's exchange in a round, instead of --round-time",
       [&](Text t) { a.options.repetitions = parse_int(t, 3, 100000); }},
      {"no-rank-probes", "", "leave out the search for ranks that are slow by themselves",
       [&](Text) { a.options.rank_probes = false; }},
  };
  for (OwnOption& option : output_own_options(a.output)) own.push_back(std::move(option));
  return own;
}

/// The benchmarks' options that mean something here.
void refuse_meaningless(const Configured& configured) {
  // -g and -t are refused later, with what to do instead.
  constexpr std::array<std::string_view, 12> kTaken{"minbytes", "backend", "timeout",  "output_file",
                                                    "seed",     "dry-run", "inject",   "hang-timeout",
                                                    "topology", "ngpus",   "nthreads", "ranks-per-gpu"};
  for (const std::string& name : configured.set_by_user) {
    if (std::find(kTaken.begin(), kTaken.end(), name) != kTaken.end()) continue;
    fail(
        fmt::format("--{} has no meaning in locate: of the benchmarks' options it takes -b (one size), --backend, "
                    "--seed, -T, -J, --dry-run, --topology, --inject and --config",
                    name));
  }
}

}  // namespace

LocateArguments read_locate_arguments(int argc, const char* const* argv, const std::optional<ConfigFile>& file,
                                      const ReadEnvironment& environment) {
  LocateArguments line_only;
  const SplitArguments split = split_arguments(argc, argv, own_options(line_only));
  LocateArguments a;
  if (split.help) {
    a.action = CommandLine::Action::help;
    return a;
  }
  if (!split.words.empty()) fail(fmt::format("{}: locate takes options only", in_quotes(split.words.front())));
  std::vector<const char*> rest;
  for (const std::string& word : split.rest) rest.push_back(word.c_str());
  a.line = scan_arguments(static_cast<int>(rest.size()), rest.data());
  a.config_file = a.line.config_file;
  if (a.line.action == CommandLine::Action::version) a.action = CommandLine::Action::version;
  if (a.action != CommandLine::Action::run) return a;

  // The file first, then the command line again over it.
  const std::vector<OwnOption> own = own_options(a);
  const std::vector<FileKey> keys = own_file_keys(own);
  Config defaults;
  defaults.stat = true;           // --seed goes with it
  defaults.maxbytes = kMaxBytes;  // -e has no meaning here, and -b must not be held against it
  a.configured = configure(a.line, file, environment, defaults, keys);
  split_arguments(argc, argv, own);
  refuse_meaningless(a.configured);
  const std::vector<std::string>& given = a.configured.set_by_user;
  if (std::find(given.begin(), given.end(), "minbytes") != given.end()) {
    a.options.nbytes = a.configured.config.minbytes;
    if (a.options.nbytes < sizeof(float)) fail("-b: a message needs 4 bytes at least");
  }
  SearchOptions& search = a.options.search;
  if (search.fail > search.warn) fail("--fail must not be above --warn: both are shares of the median");
  return a;
}

std::string locate_help() {
  LocateArguments unused;
  return "usage: mpirun -n N busbar locate [options]\n"
         "\n"
         "Names the slow node, link, direction or rank: hosts (or ranks, on one host) exchange data in pairs, all "
         "pairs\n"
         "of a round at once, in partners drawn at random; who is slow with all partners, and again with others that\n"
         "are good, is to blame. Start as many processes on each host as it has NICs or GPUs.\n"
         "\n" +
         own_options_help(own_options(unused)) +
         "\n"
         "Of the benchmarks' options (all_reduce_perf --help): -b SIZE (the message; else chosen by what the links "
         "do),\n"
         "--backend, --seed, -T, -J FILE, --dry-run, --topology, --inject, --config FILE (the same names as keys).\n"
         "\n"
         "  mpirun -n 64 busbar locate --direction --rail\n"
         "  mpirun -n 16 busbar locate --backend mpi --full -J pairs.json\n"
         "\n"
         "Exit code 0: PASS or WARN; 7: FAIL; 8: INCONCLUSIVE.\n";
}

}  // namespace busbar
