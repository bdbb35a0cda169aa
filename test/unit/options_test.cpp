// The bugs these would catch: a script's `-b8`, `--minbytes=8` or `-r -1` read differently from nccl-tests, a default
// that drifted from the help, a slip that silently measures something else, and a combination that nobody measures.

#include "common/base/options.h"

#include "common/backends/host_memory_backend.h"
#include "common/base/error.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

using namespace busbar;
using Catch::Contains;
using Catch::Matchers::StartsWith;

namespace {

const char* no_environment(const char*) { return nullptr; }

CommandLine scan(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"all_reduce_perf"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return scan_arguments(static_cast<int>(argv.size()), argv.data());
}

Configured parse(const std::vector<std::string>& words) { return configure(scan(words), std::nullopt, no_environment); }

Config config_of(const std::vector<std::string>& words) { return parse(words).config; }

struct Failure {
  ExitCode code = ExitCode::good;
  std::string text;
};

template <typename Work>
Failure failure_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

/// The message of a bad command line.
std::string complaint(const std::vector<std::string>& words) {
  const Failure failure = failure_of([&] { parse(words); });
  CHECK(failure.code == ExitCode::bad_config);
  return failure.text;
}

const Option& option_named(std::string_view long_name) {
  for (const Option& option : all_options()) {
    if (option.long_name == long_name) return option;
  }
  FAIL("no option " << long_name);
  return all_options()[0];
}

}  // namespace

TEST_CASE("the options of nccl-tests have its letters and names", "[base][options]") {
  // From nccl-tests 2.19.6's usage text.
  const std::map<char, std::string_view> known{
      {'t', "nthreads"},         {'g', "ngpus"},          {'b', "minbytes"},       {'e', "maxbytes"},
      {'i', "stepbytes"},        {'f', "stepfactor"},     {'n', "iters"},          {'m', "agg_iters"},
      {'w', "warmup_iters"},     {'N', "run_cycles"},     {'a', "average"},        {'I', "per_iter_timing"},
      {'K', "per_iter_skip"},    {'p', "parallel_init"},  {'c', "check"},          {'o', "op"},
      {'d', "datatype"},         {'r', "root"},           {'z', "blocking"},       {'y', "stream_null"},
      {'T', "timeout"},          {'G', "cudagraph"},      {'C', "report_cputime"}, {'S', "report_timestamps"},
      {'J', "output_file"},      {'R', "local_register"}, {'x', "cta_policy"},     {'D', "device_implementation"},
      {'V', "device_cta_count"}, {'M', "memory"},         {'u', "unalign"},        {'h', "help"}};
  std::map<char, std::string_view> declared;
  for (const Option& option : all_options()) {
    if (option.short_name != 0) declared[option.short_name] = option.long_name;
  }
  CHECK(declared == known);
}

TEST_CASE("our own options are long only and names are unique", "[base][options]") {
  std::set<std::string_view> names;
  std::set<std::string_view> ours;
  for (const Option& option : all_options()) {
    CHECK(names.insert(option.long_name).second);
    if (option.short_name == 0) ours.insert(option.long_name);
  }
  CHECK(ours == std::set<std::string_view>{"config",    "sizes",           "placement",     "csv",          "dry-run",
                                           "version",   "backend",         "ranks-per-gpu", "topology",     "stat",
                                           "rel-ci",    "min-time",        "max-time",      "cell-time",    "epochs",
                                           "seed",      "cadence",         "per-rank",      "skew",         "samples",
                                           "show-algo", "show-prediction", "hang-timeout",  "inject",       "paranoid",
                                           "history",   "mpi-threads",     "buffers",       "pattern",      "window",
                                           "pairs",     "nonblocking",     "json",          "fail-on-skip", "launcher",
                                           "meet-key"});
}

TEST_CASE("-J - is stdout, and --json says the same without a letter", "[base][options]") {
  CHECK(config_of({"-J", "-"}).output_file == "-");
  CHECK(config_of({"--json"}).output_file == "-");
  CHECK(config_of({"--json=r.json"}).output_file == "r.json");
  CHECK_THROWS_WITH(config_of({"-J", "/dev/stdout"}), Contains("or - for stdout"));
  CHECK_THROWS_WITH(config_of({"--json", "r.json"}), Contains("--json=FILE.json"));
}

TEST_CASE("the default in the help is the default", "[base][options]") {
  CHECK(config_of({}) == Config{});
  for (const Option& option : all_options()) {
    if (option.set == nullptr || option.default_text.empty() || option.default_text.front() == '(') continue;
    INFO(option.long_name);
    Config config;
    option.set(config, option.default_text);
    CHECK(config == Config{});
  }
}

TEST_CASE("every setting changes the configuration", "[base][options]") {
  // A value other than the default for each: a setter that writes to another field, or to none, shows.
  const std::map<std::string_view, std::string> other{{"op", "prod"},
                                                      {"datatype", "half"},
                                                      {"output_file", "a.json"},
                                                      {"csv", "a.csv"},
                                                      {"history", "a.db"},
                                                      {"placement", "in"},
                                                      {"backend", "mpi"},
                                                      {"mpi-threads", "multiple"},
                                                      {"launcher", "env"},
                                                      {"meet-key", "key"},
                                                      {"buffers", "reuse"},
                                                      {"sizes", "8,1K"},
                                                      {"cta_policy", "0"},
                                                      {"inject", "rank=0,op=1,kind=skip"},
                                                      {"rel-ci", "3%"},
                                                      {"epochs", "30"},
                                                      {"cadence", "stream"},
                                                      {"hang-timeout", "7"},
                                                      {"pattern", "both"},
                                                      {"pairs", "all"}};
  std::vector<Config> seen{Config{}};
  for (const Option& option : all_options()) {
    if (option.set == nullptr) continue;
    INFO(option.long_name);
    const auto found = other.find(option.long_name);
    const bool is_switch = option.argument == "0|1" || option.argument.empty();
    const std::string usual = is_switch ? "1" : option.long_name == "local_register" ? "2" : "3";
    Config config;
    option.set(config, found != other.end() ? found->second : usual);
    CHECK(std::find(seen.begin(), seen.end(), config) == seen.end());
    seen.push_back(config);
  }
}

TEST_CASE("the statistical mode's knobs need --stat and refuse what it cannot do", "[base][options]") {
  for (const char* knob : {"--rel-ci=3%", "--max-time=30", "--per-rank", "--samples=f.csv", "--cadence=stream"}) {
    INFO(knob);
    CHECK_THROWS_WITH(parse({knob}), Contains("needs --stat"));
    CHECK_NOTHROW(parse({knob, "--stat"}));
  }
  for (const char* loop : {"-m2", "-G1", "-z3", "-I1", "-C1", "-N2"}) {
    INFO(loop);
    CHECK_THROWS_WITH(parse({loop, "--stat"}), Contains("does not work with --stat"));
  }
  CHECK(parse({"--stat", "--max-time", "2min"}).config.max_time_s == 120);
  CHECK(parse({"--stat", "--cell-time", "500ms"}).config.cell_time_s == 0.5);
  CHECK(parse({"--stat", "--rel-ci", "0.02"}).config.rel_ci == 0.02);
  for (const char* bad :
       {"--rel-ci=0", "--rel-ci=100%", "--rel-ci=x", "--max-time=-1", "--max-time=3d", "--epochs=5"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse({bad, "--stat"}), Error);
  }
}

TEST_CASE("MPI's thread level is single unless asked for, and has four names", "[base][options]") {
  CHECK(config_of({}).mpi_threads == MpiThreads::single);
  CHECK(config_of({"--mpi-threads", "funneled"}).mpi_threads == MpiThreads::funneled);
  CHECK(config_of({"--mpi-threads=serialized"}).mpi_threads == MpiThreads::serialized);
  CHECK(config_of({"--mpi-threads=multiple"}).mpi_threads == MpiThreads::multiple);
  CHECK(complaint({"--mpi-threads", "many"}) ==
        "--mpi-threads: 'many' is not a thread level of MPI; choose from: single funneled serialized multiple");
}

TEST_CASE("buffers rotate as in nccl-tests unless they are to be reused", "[base][options]") {
  CHECK(config_of({}).buffers == BufferUse::rotate);
  CHECK(config_of({"--buffers", "rotate"}).buffers == BufferUse::rotate);
  CHECK(config_of({"--buffers=reuse"}).buffers == BufferUse::reuse);
  CHECK(complaint({"--buffers", "both"}) == "--buffers: 'both' is not a use of the buffers; choose from: rotate reuse");
}

TEST_CASE("pingpong's pattern, window and pairs are words, and latency has no window", "[base][options]") {
  const Config config = config_of({"--pattern", "oneway", "--window", "16", "--pairs", "all"});
  CHECK(config.pattern == PingpongPattern::oneway);
  CHECK(config.window == 16);
  CHECK(config.pairs == PairChoice::all);
  CHECK(complaint({"--pattern", "round"}) == "--pattern: 'round' is not a pattern; choose from: latency oneway both");
  CHECK(complaint({"--pairs", "some"}) == "--pairs: 'some' is not a choice of pairs; choose from: half all");
  CHECK_THAT(complaint({"--window", "0", "--pattern", "both"}), Contains("--window"));
  CHECK(complaint({"--window", "16"}) ==
        "--window needs --pattern oneway or both: latency has one message under way; leave it out");
}

TEST_CASE("nonblocking calls go with --stat, not with -m", "[base][options]") {
  CHECK_FALSE(config_of({}).nonblocking);
  CHECK(config_of({"--nonblocking", "--stat"}).nonblocking);
  CHECK(complaint({"--nonblocking", "-m", "2"}) ==
        "--nonblocking does not work with -m: it waits for each operation, -m for several; leave out one of them");
}

TEST_CASE("all GNU forms mean the same", "[base][options]") {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"-b8"}, {"-b", "8"}, {"--minbytes=8"}, {"--minbytes", "8"}, {"--minb", "8"}}) {
    const Configured result = parse(words);
    CHECK(result.config.minbytes == 8);
    CHECK(result.config.maxbytes == 33554432);
    CHECK(result.sets("minbytes"));
  }
}

TEST_CASE("the usual command lines mean what they mean in nccl-tests", "[base][options]") {
  const Config config = config_of({"-b",  "8",  "-e",       "128M", "-f",  "2",  "-g1", "-n", "5", "-w", "0",
                                   "-c0", "-d", "bfloat16", "-o",   "max", "-z", "1",   "-a", "3", "-T", "1.5"});
  CHECK(config.minbytes == 8);
  CHECK(config.maxbytes == 134217728);
  CHECK(config.stepfactor == 2);
  CHECK(config.iters == 5);
  CHECK(config.warmup_iters == 0);
  CHECK(config.check == 0);
  CHECK(config.dtypes == std::vector<DType>{DType::bfloat16});
  CHECK(config.ops == std::vector<Op>{Op::max});
  CHECK(config.blocking == 1);
  CHECK(config.average == Average::max);
  CHECK(config.timeout_s == 1.5);
}

TEST_CASE("a long name may be cut as far as it is the only one", "[base][options]") {
  for (const Option& option : all_options()) {
    for (std::size_t length = 1; length < option.long_name.size(); ++length) {
      const std::string_view begin = option.long_name.substr(0, length);
      const auto begins = [&](const Option& o) { return o.long_name.starts_with(begin); };
      const auto whole = [&](const Option& o) { return o.long_name == begin; };
      if (std::ranges::count_if(all_options(), begins) != 1 || std::ranges::any_of(all_options(), whole)) continue;
      INFO(begin);
      std::vector<std::string> words{"--" + std::string(begin)};
      const bool takes_value = !option.argument.empty() && option.argument.front() != '[';
      if (takes_value) words.push_back(std::string(option.default_text));
      try {
        const CommandLine line = scan(words);
        if (option.set != nullptr) CHECK(line.settings.at(0).option == &option);
      } catch (const Error& e) {  // a default in brackets is no value; the option is named by then
        CHECK_THAT(e.what(), StartsWith(label(option)));
      }
    }
  }
}

TEST_CASE("the later of two equal options wins", "[base][options]") {
  CHECK(config_of({"-n", "5", "--iters=7"}).iters == 7);
  CHECK(parse({"-n", "5", "--iters=7"}).settings.back().text == "7");
}

TEST_CASE("root -1 and all mean every root", "[base][options]") {
  CHECK(config_of({"-r", "-1"}).all_roots);
  CHECK(config_of({"-r-1"}).all_roots);
  CHECK(config_of({"--root=all"}).all_roots);
  CHECK(config_of({"-r", "3"}).root == 3);
  CHECK_FALSE(config_of({"-r", "-1", "-r", "3"}).all_roots);
  CHECK_THAT(complaint({"-r", "-2"}), Contains("'-2' is not a whole number of at least 0"));
}

TEST_CASE("types and operations are names, lists or all", "[base][options]") {
  CHECK(config_of({"-d", "all"}).dtypes == std::vector<DType>(kAllDTypes.begin(), kAllDTypes.end()));
  CHECK(config_of({"-o", "all"}).ops == std::vector<Op>(kAllOps.begin(), kAllOps.end()));
  CHECK(config_of({"-d", "fp16,float,half"}).dtypes == std::vector<DType>{DType::half, DType::float32});
  CHECK_THAT(complaint({"-d", "floaty"}), Contains("'floaty' is not a type; choose from: int8 uint8"));
  CHECK_THAT(complaint({"-o", "mean"}),
             Contains("'mean' is not an operation; choose from: sum prod max min avg mulsum"));
  CHECK_THAT(complaint({"-o", ""}), Contains("choose from"));
}

TEST_CASE("a list of sizes is sorted and replaces the range", "[base][options]") {
  const Config config = config_of({"--sizes", "4M,8,1K,8"});
  CHECK(config.sizes == std::vector<std::uint64_t>{8, 1024, 4194304});
  CHECK(config.minbytes == 8);
  CHECK(config.maxbytes == 4194304);
  CHECK_THAT(complaint({"--sizes", "8,,9"}), Contains("'' is not a size"));
  for (const char* range : {"-b8", "-e64M", "-f2", "-i8"}) {
    CHECK_THAT(complaint({"--sizes", "8", range}), Contains("--sizes is the whole list"));
  }
}

TEST_CASE("numbers that measure nothing are rejected", "[base][options]") {
  for (const auto& words : std::vector<std::vector<std::string>>{{"-n", "abc"},
                                                                 {"-n", "0"},
                                                                 {"-n", "-1"},
                                                                 {"-m", "0"},
                                                                 {"-w", "-1"},
                                                                 {"-N", "-1"},
                                                                 {"-c", "-1"},
                                                                 {"-b", "0"},
                                                                 {"-i", "0"},
                                                                 {"-e", "0"},
                                                                 {"-t", "0"},
                                                                 {"-g", "0"},
                                                                 {"-f", "-2"},
                                                                 {"-f", "nan"},
                                                                 {"-V", "0"},
                                                                 {"-V", "129"},
                                                                 {"-R", "3"},
                                                                 {"-x", "3"},
                                                                 {"-z", "4"},
                                                                 {"-a", "4"},
                                                                 {"-D", "5"},
                                                                 {"-u", "-1"},
                                                                 {"-p", "2"},
                                                                 {"-T", "-1"},
                                                                 {"-n", "2000000000", "-m", "2"},
                                                                 {"--ranks-per-gpu", "0"},
                                                                 {"--placement", "none"},
                                                                 {"--backend", "ucc"},
                                                                 {"-J", "out.txt"},
                                                                 {"-J", ".json"},
                                                                 {"--csv", ""},
                                                                 {"-b", "-e", "8"}}) {
    INFO(words[0] << ' ' << words[1]);
    CHECK(complaint(words) != "");
  }
}

TEST_CASE("a message names the option and the value", "[base][options]") {
  CHECK(complaint({"-n", "abc"}) == "-n/--iters: 'abc' is not a whole number of at least 1");
  CHECK(complaint({"--placement", "up"}) == "--placement: 'up' is not a placement; choose from: out in both");
  CHECK_THAT(complaint({"-J", "r.csv"}), Contains("ending in .json"));
}

TEST_CASE("a first size above the last says what to add", "[base][options]") {
  CHECK(complaint({"-b", "64M"}) == "-b 64M alone fails because -e defaults to 32M: add -e 64M");
  CHECK(complaint({"-e", "1K"}) == "-e 1K alone fails because -b defaults to 32M: add -b 1K");
  CHECK_THAT(complaint({"-b", "2K", "-e", "1000"}), StartsWith("the first size (-b 2K) is above the last (-e 1000)"));
}

TEST_CASE("unknown options name the nearest", "[base][options]") {
  CHECK_THAT(complaint({"--minbite", "8"}), Contains("unknown option '--minbite'; did you mean --minbytes?"));
  CHECK_THAT(complaint({"--iter_skip", "8"}), Contains("unknown option '--iter_skip'"));
  CHECK_THAT(complaint({"--ranks_per_gpu=2"}), Contains("did you mean --ranks-per-gpu?"));
  CHECK_THAT(complaint({"--verison"}), Contains("did you mean --version?"));
  CHECK_THAT(complaint({"-B", "8"}), Contains("unknown option -B; did you mean -b/--minbytes?"));
  CHECK_THAT(complaint({"--iters=5", "-Qx"}), Contains("unknown option -Q"));
  CHECK_THAT(complaint({"-\xff"}), Contains("unknown option"));
}

TEST_CASE("a long option with one dash is recognised", "[base][options]") {
  CHECK_THAT(complaint({"-iters", "5"}), Contains("did you mean --iters (two dashes)?"));
  CHECK_THAT(complaint({"-minbytes", "8"}), Contains("did you mean --minbytes (two dashes)?"));
  CHECK_THAT(complaint({"-version"}), Contains("did you mean --version (two dashes)?"));
}

TEST_CASE("ambiguous, missing, surplus and stray arguments are errors", "[base][options]") {
  CHECK_THAT(complaint({"--m", "8"}), Contains("may be --minbytes or --maxbytes or --memory"));
  CHECK_THAT(complaint({"-b"}), StartsWith("-b/--minbytes needs an argument"));
  CHECK_THAT(complaint({"-n5", "--root"}), StartsWith("-r/--root needs an argument"));
  CHECK_THAT(complaint({"--dry-run=1"}), StartsWith("--dry-run takes no argument"));
  CHECK_THAT(complaint({"--help=1"}), StartsWith("-h/--help takes no argument"));
  CHECK_THAT(complaint({"8M"}), StartsWith("unexpected argument '8M'"));
  CHECK_THAT(complaint({"-n5", "8M", "-b", "8"}), StartsWith("unexpected argument '8M'"));
  CHECK_THAT(complaint({"--", "-b8"}), StartsWith("unexpected argument '-b8'"));
  CHECK_THAT(complaint({"--=8"}), StartsWith("'--=8' is not an option"));
  CHECK_THAT(complaint({""}), StartsWith("unexpected argument ''"));
  CHECK_THAT(complaint({"--config", "a", "--config", "b"}), StartsWith("--config: give one file"));
}

TEST_CASE("help and version are actions and win over what follows", "[base][options]") {
  CHECK(scan({"-h"}).action == CommandLine::Action::help);
  CHECK(scan({"-b8", "--help", "--nonsense"}).action == CommandLine::Action::help);
  CHECK(scan({"--version"}).action == CommandLine::Action::version);
  CHECK(scan({"--dry-run", "--topology"}).action == CommandLine::Action::run);
  CHECK(config_of({"--dry-run", "--topology"}).dry_run);
  CHECK(config_of({"--dry-run", "--topology"}).topology);
}

TEST_CASE("combinations that cannot be measured are rejected", "[base][options]") {
  CHECK_THAT(complaint({"-K", "3"}), StartsWith("-K 3 needs -I 1"));
  CHECK_THAT(complaint({"-I1", "-K", "20"}), StartsWith("-K 20 leaves none of the 20 iterations"));
  CHECK(config_of({"-I1", "-K", "19"}).per_iter_skip == 19);
  CHECK_THAT(complaint({"-I1", "-G1"}), StartsWith("-I 1 does not work with -G"));
  CHECK_THAT(complaint({"-z3", "-G1"}), StartsWith("-z 3 does not work with -G"));
  CHECK_THAT(complaint({"-D1"}), Contains("add -R 2"));
  CHECK_THAT(complaint({"--ranks-per-gpu", "2", "-g", "2"}), Contains("one rank per process"));
  CHECK(config_of({"-D1", "-R2"}).device_implementation == 1);
}

TEST_CASE("the mpi backend refuses what it cannot honour and names it", "[base][options]") {
  const auto refusal = [](const std::vector<std::string>& words, int nprocesses) {
    return failure_of([&] { refuse_gpu_options(config_of(words), kMpiTraits, nprocesses, Carrier::mpi); });
  };
  const std::map<std::string, std::string> refused{{"-G1", "-G"}, {"-R1", "-R"},
                                                   {"-x0", "-x"}, {"-y1", "-y"},
                                                   {"-p1", "-p"}, {"--ranks-per-gpu=2", "--ranks-per-gpu"}};
  for (const auto& [word, named] : refused) {
    const Failure failure = refusal({word}, 4);
    CHECK(failure.code == ExitCode::not_possible);
    CHECK_THAT(failure.text, StartsWith(named) && Contains("mpi backend"));
  }
  for (const char* word : {"-G0", "-R0", "-y0", "-p0", "-D0", "-z1", "-M1", "-g1", "-t1"}) {
    INFO(word);
    CHECK(refusal({word}, 4).code == ExitCode::good);
  }
  const Failure several = refusal({"-g4"}, 2);
  CHECK(several.code == ExitCode::not_possible);
  CHECK_THAT(several.text, Contains("one rank per process") && Contains("mpirun -n 8"));
  CHECK_THAT(refusal({"-t2", "-g4"}, 3).text, Contains("mpirun -n 24"));
}

TEST_CASE("the help has every option and at most 100 columns", "[base][options]") {
  const std::string help = help_text("all_reduce_perf");
  std::istringstream in(help);
  for (std::string line; std::getline(in, line);) {
    INFO(line);
    CHECK(line.size() <= 100);
    CHECK((line.empty() || line.back() != ' '));
  }
  for (const Option& option : all_options()) {
    CHECK_THAT(help, Contains("--" + std::string(option.long_name)));
  }
  CHECK_THAT(help, Contains("NCCL_TESTS_MIN_BW") && Contains("  255  bad command line"));
  CHECK_THAT(help, Contains("  -b, --minbytes SIZE                 first size (default: 32M)\n"));
}

TEST_CASE("suggestions are slips, not guesses", "[base][options]") {
  const std::vector<std::string> choices{"iters", "root", "minbytes", "ranks-per-gpu"};
  CHECK(nearest_choice("itesr", choices) == "iters");
  CHECK(nearest_choice("minbyte", choices) == "minbytes");
  CHECK(nearest_choice("ranks_per_gpus", choices) == "ranks-per-gpu");
  CHECK(nearest_choice("bandwidth", choices) == "");
  CHECK(nearest_choice("", choices) == "");
  CHECK(nearest_choice(std::string(1 << 20, 'x'), choices) == "");
}

TEST_CASE("labels show both names", "[base][options]") {
  CHECK(label(option_named("minbytes")) == "-b/--minbytes");
  CHECK(label(option_named("sizes")) == "--sizes");
}
