#include "common/base/options.h"

#include "common/base/environment.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/suggest.h"
#include "common/base/text.h"
#include "common/base/yaml_config.h"

#include <fmt/format.h>
#include <getopt.h>

#include <algorithm>
#include <array>
#include <climits>

namespace busbar {
namespace {

/// getopt_long's code of option number i that has no short name: above every character.
constexpr int kLongOnly = 1000;

constexpr std::array<std::string_view, 4> kRangeOptions{"minbytes", "maxbytes", "stepbytes", "stepfactor"};

[[noreturn]] void fail(const std::string& text) {
  throw Error(ExitCode::bad_config, text + " (--help lists the options)");
}

std::vector<std::string> long_names() {
  std::vector<std::string> names;
  for (const Option& option : all_options()) names.emplace_back(option.long_name);
  return names;
}

const Option* find_by_code(int code) {
  const auto options = all_options();
  if (code >= kLongOnly) return &options[code - kLongOnly];
  const auto found =
      std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.short_name == code; });
  return code == 0 || found == options.end() ? nullptr : &*found;
}

std::vector<::option> getopt_table() {
  std::vector<::option> table;
  const auto options = all_options();
  for (std::size_t i = 0; i < options.size(); ++i) {
    const Option& o = options[i];
    const int code = o.short_name != 0 ? o.short_name : kLongOnly + static_cast<int>(i);
    table.push_back({o.long_name.data(), o.argument.empty() ? no_argument : required_argument, nullptr, code});
  }
  table.push_back({});
  return table;
}

/// The leading ':' keeps getopt silent and tells a missing argument from an unknown option.
std::string getopt_letters() {
  std::string letters = ":";
  for (const Option& o : all_options()) {
    if (o.short_name == 0) continue;
    letters += o.short_name;
    if (!o.argument.empty()) letters += ':';
  }
  return letters;
}

/// A hint for "-iters 5", which getopt reads as "-i ters": empty where the word is nothing of the kind.
std::string one_dash_hint(std::string_view word) {
  if (word.size() < 3 || word[0] != '-' || word[1] == '-') return {};
  const std::string_view body = word.substr(1, word.find('=') - 1);
  for (const Option& o : all_options()) {
    if (o.long_name == body) return fmt::format("; did you mean --{} (two dashes)?", body);
  }
  return {};
}

/// Why getopt rejected the long option `word` ("--name" or "--name=value").
[[noreturn]] void fail_long(std::string_view word) {
  const std::string_view name = word.substr(2, word.find('=') - 2);
  std::vector<std::string> candidates;
  for (const Option& o : all_options()) {
    if (o.long_name == name) fail(fmt::format("--{} takes no argument", name));
    if (o.long_name.starts_with(name)) candidates.push_back("--" + std::string(o.long_name));
  }
  if (name.empty()) fail(fmt::format("{} is not an option", in_quotes(word)));
  if (candidates.size() > 1) fail(fmt::format("{} may be {}", in_quotes(word), fmt::join(candidates, " or ")));
  if (candidates.size() == 1) fail(fmt::format("{} takes no argument", candidates[0]));
  const std::string nearest = nearest_choice(name, long_names());
  fail(fmt::format("unknown option {}{}", in_quotes(word),
                   nearest.empty() ? "" : fmt::format("; did you mean --{}?", nearest)));
}

[[noreturn]] void fail_letter(int letter, std::string_view word) {
  const std::string hint = one_dash_hint(word);
  if (!hint.empty()) fail(fmt::format("unknown option {}{}", word, hint));
  if (letter <= 32 || letter >= 127) fail(fmt::format("unknown option {}", in_quotes(word)));
  const Option* other = find_by_code(letter ^ 0x20);
  fail(fmt::format("unknown option -{}{}", static_cast<char>(letter),
                   other != nullptr ? fmt::format("; did you mean {}?", label(*other)) : ""));
}

/// Explains getopt's '?'. An unknown letter is in optopt; for a long option that is 0 or a known code.
[[noreturn]] void fail_unknown(const std::vector<char*>& words) {
  if (optopt == 0 || find_by_code(optopt) != nullptr) fail_long(words[optind - 1]);
  // getopt stays on a word whose letters it has not all read.
  const char* here = words[optind];
  const bool inside = here != nullptr && here[0] == '-' && here[1] == static_cast<char>(optopt) && here[2] != '\0';
  fail_letter(optopt, inside ? here : words[optind - 1]);
}

void accept(CommandLine& line, const Option& option, std::string_view word, const char* argument, Config& scratch) {
  const std::string text = option.argument.empty() ? "1" : argument;
  if (option.long_name == "config") {
    if (text.empty()) fail("--config: the file name is empty");
    if (!line.config_file.empty()) fail("--config: give one file, not two");
    line.config_file = text;
    return;
  }
  try {
    option.set(scratch, text);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}{}", label(option), error.what(), one_dash_hint(word)));
  }
  line.settings.push_back({&option, text});
}

void remember(std::vector<std::string>& names, std::string_view name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
}

bool names_range(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return std::find(kRangeOptions.begin(), kRangeOptions.end(), name) != kRangeOptions.end();
  });
}

/// The command line's choice between a list of sizes and a range replaces the file's, not only its numbers.
void drop_file_sizes(Config& config, const std::vector<std::string>& names) {
  const bool list = std::find(names.begin(), names.end(), "sizes") != names.end();
  if (!list && (!names_range(names) || config.sizes.empty())) return;
  const Config defaults;
  config.sizes.clear();
  config.minbytes = defaults.minbytes;
  config.maxbytes = defaults.maxbytes;
  config.stepbytes = defaults.stepbytes;
  config.stepfactor = defaults.stepfactor;
}

}  // namespace

CommandLine scan_arguments(int argc, const char* const* argv) {
  // getopt reorders the array, not the strings.
  std::vector<char*> words;
  for (int i = 0; i < argc; ++i) words.push_back(const_cast<char*>(argv[i]));
  words.push_back(nullptr);
  const std::vector<::option> table = getopt_table();
  const std::string letters = getopt_letters();
  CommandLine line;
  Config scratch;
  opterr = 0;
  optind = 0;  // glibc: start afresh
  while (true) {
    const int code = getopt_long(argc, words.data(), letters.c_str(), table.data(), nullptr);
    if (code == -1) break;
    if (code == '?') fail_unknown(words);
    if (code == ':') fail(fmt::format("{} needs an argument", label(*find_by_code(optopt))));
    const Option& option = *find_by_code(code);
    if (option.long_name == "help" || option.long_name == "version") {
      line.action = option.long_name == "help" ? CommandLine::Action::help : CommandLine::Action::version;
      return line;
    }
    const bool separate = optarg != nullptr && optarg == words[optind - 1];
    accept(line, option, words[optind - (separate ? 2 : 1)], optarg, scratch);
  }
  if (optind < argc)
    fail(fmt::format("unexpected argument {}: a value follows its option, as in -b 8M", in_quotes(words[optind])));
  std::vector<std::string> names;
  for (const Setting& setting : line.settings) remember(names, setting.option->long_name);
  check_size_conflict(names);
  return line;
}

void check_size_conflict(const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), "sizes") == names.end() || !names_range(names)) return;
  throw Error(ExitCode::bad_config, "--sizes is the whole list: leave out -b, -e, -f and -i, or leave out --sizes");
}

Configured configure(const CommandLine& line, const std::optional<ConfigFile>& file, const ReadEnvironment& environment,
                     const Config& defaults, std::span<const FileKey> own_keys) {
  Configured result;
  Config& config = result.config;
  config = defaults;
  apply_environment(config, environment);
  if (file) result.set_by_user = apply_yaml(config, file->text, file->name, own_keys);
  config.config_file = line.config_file;
  std::vector<std::string> names;
  for (const Setting& setting : line.settings) remember(names, setting.option->long_name);
  if (contains(result.set_by_user, "mpi-threads") && !contains(names, "mpi-threads")) {
    throw Error(ExitCode::bad_config,
                fmt::format("{}: mpi-threads: MPI is started before a file is read; give --mpi-threads on the command "
                            "line",
                            file->name));
  }
  drop_file_sizes(config, names);
  for (const Setting& setting : line.settings) setting.option->set(config, setting.text);
  for (const std::string& name : names) remember(result.set_by_user, name);
  validate(config);
  return result;
}

namespace {

/// Short enough to be typed: 67108864 as 64M; bytes where no unit divides it.
std::string typed_size(std::uint64_t nbytes) {
  static constexpr std::string_view kUnits = "TGMK";
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    const int shift = 40 - 10 * static_cast<int>(i);
    if (nbytes != 0 && nbytes % (1ull << shift) == 0) return fmt::format("{}{}", nbytes >> shift, kUnits[i]);
  }
  return std::to_string(nbytes);
}

void require(bool good, const std::string& text) {
  if (!good) throw Error(ExitCode::bad_config, text);
}

void check_range(const Config& config) {
  if (config.minbytes <= config.maxbytes) return;
  const std::string first = typed_size(config.minbytes);
  const std::string last = typed_size(config.maxbytes);
  const Config defaults;
  if (config.maxbytes == defaults.maxbytes) {
    throw Error(ExitCode::bad_config,
                fmt::format("-b {} alone fails because -e defaults to {}: add -e {}", first, last, first));
  }
  if (config.minbytes == defaults.minbytes) {
    throw Error(ExitCode::bad_config,
                fmt::format("-e {} alone fails because -b defaults to {}: add -b {}", last, first, last));
  }
  throw Error(ExitCode::bad_config,
              fmt::format("the first size (-b {}) is above the last (-e {}): swap them or raise -e", first, last));
}

/// The statistical mode has its own loop, and its knobs mean nothing without it.
void check_stat(const Config& config) {
  const Config defaults;
  const auto needs_stat = [&](bool set, std::string_view option) {
    require(config.stat || !set, fmt::format("{} needs --stat: add it", option));
  };
  needs_stat(config.rel_ci != defaults.rel_ci, "--rel-ci");
  needs_stat(config.min_time_s != defaults.min_time_s, "--min-time");
  needs_stat(config.max_time_s != defaults.max_time_s, "--max-time");
  needs_stat(config.cell_time_s != defaults.cell_time_s, "--cell-time");
  needs_stat(config.epochs != defaults.epochs, "--epochs");
  needs_stat(config.seed != defaults.seed, "--seed");
  needs_stat(config.cadence != defaults.cadence, "--cadence");
  needs_stat(config.per_rank, "--per-rank");
  needs_stat(config.skew, "--skew");
  needs_stat(!config.samples_file.empty(), "--samples");
  require(!config.show_prediction || config.show_algo, "--show-prediction needs --show-algo: add it");
  if (!config.stat) return;
  const auto refuse = [](bool set, std::string_view option, std::string_view why) {
    require(!set, fmt::format("{} does not work with --stat: {}; leave out one of them", option, why));
  };
  refuse(config.agg_iters > 1, "-m", "a sample is one operation");
  refuse(config.cudagraph > 0, "-G", "a graph has no points between its iterations");
  refuse(config.blocking != 0, "-z", "--cadence says how operations follow each other");
  refuse(config.per_iter_timing, "-I", "every operation is a sample already");
  refuse(config.report_cputime, "-C", "it times operations to their end");
  refuse(config.run_cycles != 1, "-N", "it visits each row as often as the interval needs");
  require(config.min_time_s <= config.cell_time_s, "--min-time is above --cell-time: lower one or raise the other");
}

}  // namespace

void validate(const Config& config) {
  check_range(config);
  require(config.iters <= INT_MAX / config.agg_iters,
          fmt::format("-n {} times -m {} is above {}: lower one of them", config.iters, config.agg_iters, INT_MAX));
  require(config.per_iter_skip == 0 || config.per_iter_timing,
          fmt::format("-K {} needs -I 1: it leaves iterations out of the figures that -I adds", config.per_iter_skip));
  require(config.per_iter_skip < config.iters,
          fmt::format("-K {} leaves none of the {} iterations (-n): lower -K below {}", config.per_iter_skip,
                      config.iters, config.iters));
  require(!config.per_iter_timing || config.cudagraph == 0,
          "-I 1 does not work with -G: a graph has no points between its iterations; leave out one of them");
  require(config.blocking != 3 || config.cudagraph == 0,
          "-z 3 does not work with -G: a barrier between iterations cannot be in a graph; leave out one of them");
  require(!config.inject || config.cudagraph == 0,
          "--inject does not work with -G: a graph cannot change between its operations; leave out one of them");
  require(config.ranks_per_gpu == 1 || (config.nthreads == 1 && config.ngpus == 1),
          "--ranks-per-gpu needs one rank per process: leave out -t and -g and start more processes");
  require(!config.nonblocking || config.agg_iters == 1,
          "--nonblocking does not work with -m: it waits for each operation, -m for several; leave out one of them");
  require(config.window == Config{}.window || config.pattern != PingpongPattern::latency,
          "--window needs --pattern oneway or both: latency has one message under way; leave it out");
  require(config.csv.empty() || config.csv != config.output_file, "--csv and -J name the same file");
  check_stat(config);
  if (config.device_implementation == 0) return;
  require(config.local_register == 2,
          fmt::format("-D {} needs symmetric windows: add -R 2", config.device_implementation));
}

}  // namespace busbar
