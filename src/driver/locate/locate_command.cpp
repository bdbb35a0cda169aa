#include "common/backends/backend_traits.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/job/job.h"
#include "common/job/session_job.h"
#include "common/measure/stat_runner.h"
#include "common/output/progress.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/processes/child.h"
#include "common/processes/comm.h"
#include "common/record/finding.h"
#include "driver/command/subcommand.h"
#include "driver/formats/output_options.h"
#include "driver/formats/result_formats.h"
#include "driver/locate/locate_run.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

namespace busbar {
namespace {

/// The command line of `busbar locate`, and its --config file.
struct LocateArguments {
  LocateOptions options;
  OutputOptions output;
  Configured configured;
  CommandLine line;  ///< the benchmarks' options on the command line
};

UnitChoice parse_unit(std::string_view text) {
  if (const auto unit = from_word<UnitChoice>(text)) return *unit;
  throw_bad_config(unknown_choice("unit", text, {"auto", "host", "rank"}));
}

double parse_share(std::string_view text) {
  const double share = parse_fraction(text);
  if (!(share > 0 && share < 1))
    throw_bad_config(fmt::format("{} is not a share of the median, such as 0.8 or 80%", in_quotes(text)));
  return share;
}

std::vector<OwnOption> own_options(LocateArguments& a) {
  using Text = std::string_view;
  SearchOptions& search = a.options.search;
  std::vector<OwnOption> own = {
      {"full", "", "every pair once, suspect pairs again: finds a single bad link", [&](Text) { search.full = true; }},
      {"direction", "", "also one way at a time: does it send or receive slowly?",
       [&](Text) { search.direction = true; }},
      {"rail", "[=N]", "also each local rank of suspects by itself: which NIC? (=N: the first N only)",
       [&](Text t) { search.rails = t.empty() ? -1 : parse_int(t, 1, 1024); }},
      {"halving", "", "from 8 hosts on, screen by halves: finds faults that only large groups show",
       [&](Text) { search.halving = true; }},
      {"soak", "TIME", "repeat matchings for so long, such as 15min: finds faults that come and go",
       into(search.soak_s, parse_duration)},
      {"matchings", "N", "random matchings (default: 4)", [&](Text t) { search.matchings = parse_int(t, 1, 1000); }},
      {"confirmations", "N", "tests of each suspect with partners that were good (default: 3)",
       [&](Text t) { search.confirmations = parse_int(t, 1, 100); }},
      {"looks", "N", "tests of a unit that would FAIL; one that was busy WARNs (default: 3; 1: at once)",
       [&](Text t) { search.looks = parse_int(t, 1, kMostLooks); }},
      {"looks-apart", "TIME", "time before the second look, twice that before the third (default: 60 s)",
       into(search.looks_apart_s, parse_duration)},
      {"warn", "SHARE", "slower than this share of the median is a WARN (default: 0.9)",
       into(search.warn, parse_share)},
      {"fail", "SHARE", "slower than this share of the median is a FAIL (default: 0.8)",
       into(search.fail, parse_share)},
      {"expected", "GB/S", "what a healthy pair reaches: with it two units can be judged",
       [&](Text t) { search.expected_bandwidth = 1e9 * parse_double(t, 1e-6, 1e6); }},  // as busbw is printed
      {"unit", "host|rank", "what may be slow (default: host; rank if there is one host)",
       into(a.options.unit, parse_unit)},
      {"round-time", "TIME", "time to measure in each round (default: 1 s)", into(a.options.round_s, parse_duration)},
      {"repetitions", "N", "exchanges of each pair in a round, instead of --round-time",
       [&](Text t) { a.options.repetitions = parse_int(t, 3, 100000); }},
      {"no-rank-probes", "", "leave out the search for ranks that are slow by themselves",
       [&](Text) { a.options.rank_probes = false; }},
  };
  for (OwnOption& option : output_own_options(a.output)) own.push_back(std::move(option));
  return own;
}

/// The benchmarks' options that mean something here.
void refuse_what_locate_ignores(const Configured& configured) {
  // -g and -t are refused later, with what to do instead.
  constexpr std::array<std::string_view, 15> kTaken{
      "minbytes", "backend", "timeout",  "output_file",   "seed",        "dry-run",  "inject",  "hang-timeout",
      "topology", "ngpus",   "nthreads", "ranks-per-gpu", "mpi-threads", "launcher", "meet-key"};
  for (const Setting& setting : configured.settings) {
    if (contains(kTaken, setting.option->long_name)) continue;
    throw_bad_config(fmt::format(
        "--{} has no meaning in locate: of the benchmarks' options it takes -b (one size), --backend, "
        "--seed, -T, -J, --dry-run, --topology, --inject, --mpi-threads, --launcher, --meet-key and --config",
        setting.option->long_name));
  }
}

/// Reads everything; `file` is the text of --config, or nothing yet. Throws Error(bad_config).
LocateArguments read_locate_arguments(int argc, const char* const* argv, const std::optional<ConfigFile>& file,
                                      const ReadEnvironment& environment) {
  LocateArguments line_only;
  LocateArguments a;
  a.line = scan_arguments(argc, argv, own_options(line_only));
  if (a.line.action != CommandLine::Action::run) return a;
  if (!a.line.words.empty())
    throw_bad_config(fmt::format("{}: locate takes options only", in_quotes(a.line.words.front())));

  // The file first, then the command line again over it.
  const std::vector<OwnOption> own = own_options(a);
  const std::vector<YamlKey> keys = own_file_keys(own);
  Config defaults;
  defaults.stat = true;           // --seed goes with it
  defaults.maxbytes = kMaxBytes;  // -e has no meaning here, and must not limit -b
  a.configured = configure(a.line, file, environment, defaults, keys);
  (void)scan_arguments(argc, argv, own);
  refuse_what_locate_ignores(a.configured);
  if (a.configured.sets("minbytes")) {
    a.options.nbytes = a.configured.config.minbytes;
    if (a.options.nbytes < sizeof(float)) throw_bad_config("-b: a message needs 4 bytes at least");
  }
  SearchOptions& search = a.options.search;
  if (search.fail > search.warn) throw_bad_config("--fail must not be above --warn: both are shares of the median");
  return a;
}

std::string dry_run_text(const LocateRun& run, const LocateUnits& units) {
  const Search search(units.count(), run.options.search);
  const double seconds = search.planned_rounds() * run.options.round_s + run.options.search.soak_s;
  const int looks = run.options.search.looks;
  const double later_s = run.options.search.looks_apart_s * looks * (looks - 1) / 2;
  return fmt::format("# {} {}s, {} process{} of each at a time; about {} rounds of {} and about {} in all{}\n",
                     units.count(), name(units.kind()), units.rails(), units.rails() == 1 ? "" : "es",
                     search.planned_rounds(), format_duration(run.options.round_s), format_duration(seconds),
                     looks > 1 ? fmt::format(", {} more if any looks slow", format_duration(later_s)) : "");
}

ExitCode locate_in_job(std::span<char*> args, const LocateArguments& arguments, Job& job) {
  const Comm& world = job.world();
  const Config& config = arguments.configured.config;
  job.configure(config);
  const Collective* const collectives[] = {&kSendrecv};
  JobBackend opened = job.open(config, world, collectives);
  RunInfo info = describe_run(args, kSendrecv, config, *opened.backend, {},
                              describe_local_ranks(*opened.backend, world, 0), world);
  info.program = "busbar locate";
  info.seed = agree_on_seed(world, config.seed);
  job.add_remarks(info, config, std::move(opened.remarks));
  LocateRun run;
  run.options = arguments.options;
  run.options.search.seed = info.seed;
  if (config.dry_run) {
    const LocateUnits units = agree_on_units(world, run.options.unit);
    if (run.options.search.rails < 0) run.options.search.rails = units.rails();
    if (job.is_root()) write_stdout(dry_run_text(run, units));
    return ExitCode::good;
  }
  RewrittenFile json;
  OutputFiles files;
  TerminalLine line;
  on_process0(world, [&] {
    StartedFiles started;
    json = {config.output_file, "-J"};
    started.add(json.path());
    json.write([&] { return locate_json(info, run, std::nullopt); });
    files.open(arguments.output, result_of_run(info, run), "locate", started);
    started.keep();
  });
  run = run_search(job, *opened.backend, config, run.options, [&](const std::string& text) { line.report(text); });
  const ExitCode code = exit_code(run.outcome);
  job.watchdog().begin_step(Phase::output, "writing the results");
  bool complete = true;
  on_process0(world, [&] {
    AcceptResult result = result_of_run(info, run);
    result.end_time = local_timestamp();
    line.erase();
    std::string text = locate_text(run);  // then what ran
    text += fmt::format("# busbar version {} locate: {}, backend={} library={}\n", info.version,
                        counted(info.nranks, "rank"), info.backend, info.library_version);
    text += calls_line(info);
    for (const std::string& remark : info.remarks) text += remark_lines(remark);
    const bool printed = write_stdout(text);
    json.write([&] { return locate_json(info, run, code); });
    json.finish();
    Lost lost = files.write(result);
    json.add_lost(lost);
    complete = say_lost(lost, printed);
  });
  return job.agreed_code(code, complete);
}

int run_locate_process(const Launch& launch, int argc, char** argv) {
  LocateArguments before = read_locate_arguments(argc, argv, std::nullopt, ::getenv);
  const auto help = [&] { return help_of("locate", own_options(before)); };
  if (const auto code = help_or_version(launch, before.line.action, help)) return *code;
  LocateArguments arguments;
  const auto work = [&](Job& job) {
    const std::optional<ConfigFile> file = agree_on_config_file(job, before.line.config_file);
    collectively(job.world(), "reading the options",
                 [&] { arguments = read_locate_arguments(argc, argv, file, ::getenv); });
    return locate_in_job({argv, static_cast<std::size_t>(argc)}, arguments, job);
  };
  return run_session(argc, argv, chosen_launch(before.line), mpi_start(before.line), work);
}

}  // namespace

std::vector<AcceptResult::Host> hosts_of(std::span<const RankInfo> ranks) {
  std::vector<AcceptResult::Host> hosts;
  for (const auto& [name, its] : grouped(ranks, &RankInfo::hostname)) {
    AcceptResult::Host& host = hosts.emplace_back();
    host.name = name;
    std::map<std::string, std::set<std::string>> devices;  // several ranks may share a GPU
    for (const RankInfo* rank : its) {
      host.ranks.push_back(rank->rank);
      devices[rank->device.name].insert(rank->device.id);
    }
    host.device = joined_words(mapped(devices,
                                      [](const auto& device) {
                                        const auto& [model, ids] = device;
                                        return model == kHostMemory ? model : fmt::format("{} x {}", model, ids.size());
                                      }),
                               ", ");
  }
  return hosts;
}

AcceptResult result_of_run(const RunInfo& info, const LocateRun& run) {
  AcceptResult result = result_of_locate(run.located);
  const auto add = [&](Criterion what, std::string scope, Outcome outcome, std::string found, std::string host) {
    CriterionResult& criterion = result.criteria.emplace_back();
    criterion.criterion = what;
    criterion.stage = Stage::pairs;
    criterion.scope = std::move(scope);
    criterion.outcome = outcome;
    criterion.found = std::move(found);
    criterion.hosts = {std::move(host)};
  };
  for (const SlowRank& slow : run.ranks.slow) {
    add(Criterion::slow_rank, fmt::format("rank {}", slow.rank), slow.outcome, describe(slow), slow.host);
  }
  for (const DoctorRow& row : run.counters) {
    add(Criterion::counters, row.subject, row.outcome, fmt::format("{} {}: {}", row.check, row.value, row.reason),
        row.subject.substr(0, row.subject.find(' ')));
  }
  result.version = info.version;
  result.start_time = info.start_time;
  result.command = info.args;
  result.backend = info.backend;
  result.library = info.library_version;
  result.hosts = hosts_of(info.ranks);
  result.outcome = run.outcome;
  return result;
}

int run_locate(int argc, char** argv) {
  const Launch launch = detect_launch();
  return run_with_children(launch, [&] { return run_locate_process(launch, argc, argv); });
}

}  // namespace busbar
