#include "common/base/options.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 4> kRangeOptions{"minbytes", "maxbytes", "stepbytes", "stepfactor"};

[[noreturn]] void fail(const std::string& text) { throw_bad_config(text + " (--help lists the options)"); }

/// The option that a word of the command line names: one of these two.
struct NamedOption {
  const Option* shared = nullptr;
  const OwnOption* own = nullptr;

  bool found() const { return shared != nullptr || own != nullptr; }
  std::string_view argument() const { return own != nullptr ? own->argument : shared->argument; }
  std::string shown() const { return own != nullptr ? fmt::format("--{}", own->long_name) : label(*shared); }
};

const Option* find_letter(int letter) {
  const auto options = all_options();
  const auto found = std::ranges::find_if(options, [&](const Option& o) { return o.short_name == letter; });
  return letter == 0 || found == options.end() ? nullptr : &*found;
}

/// A hint for "-iters 5", which reads as "-i ters"; empty for other words.
std::string one_dash_hint(std::string_view word) {
  if (word.size() < 3 || word[0] != '-' || word[1] == '-') return {};
  const std::string_view body = word.substr(1, word.find('=') - 1);
  for (const Option& o : all_options())
    if (o.long_name == body) return fmt::format("; did you mean --{} (two dashes)?", body);
  return {};
}

[[noreturn]] void fail_letter(char letter, std::string_view word) {
  const std::string hint = one_dash_hint(word);
  if (!hint.empty()) fail(fmt::format("unknown option {}{}", word, hint));
  if (letter <= 32 || letter >= 127) fail(fmt::format("unknown option {}", in_quotes(word)));
  const Option* other = find_letter(letter ^ 0x20);
  fail(fmt::format("unknown option -{}{}", letter,
                   other != nullptr ? fmt::format("; did you mean {}?", label(*other)) : ""));
}

void accept(CommandLine& line, const Option& option, std::string_view word, const std::string& text, Config& scratch) {
  if (option.long_name == "json") return accept(line, *find_letter('J'), word, text.empty() ? "-" : text, scratch);
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

bool sets(const std::vector<Setting>& settings, std::string_view name) {
  return std::ranges::any_of(settings, [&](const Setting& setting) { return setting.option->long_name == name; });
}

bool sets_range(const std::vector<Setting>& settings) {
  return std::ranges::any_of(kRangeOptions, [&](std::string_view name) { return sets(settings, name); });
}

/// Reads a command line word by word.
class ArgumentScanner {
 public:
  ArgumentScanner(std::span<const char* const> words, std::span<const OwnOption> own, PlainWords meant)
      : left_(words), own_(own), meant_(meant) {}

  CommandLine scan() {
    bool options_end = false;
    // Like nccl-tests, a benchmark reads nothing after --help; a subcommand still reports unknown words.
    while (!left_.empty() && (line_.action == CommandLine::Action::run || !own_.empty())) {
      const std::string_view word = next_word();
      if (options_end || !word.starts_with('-') || word == "-") {
        line_.words.emplace_back(word);
        options_end = options_end || meant_ == PlainWords::begin_a_command;
      } else if (word == "--") {
        options_end = true;
      } else if (word.starts_with("--")) {
        read_long(word);
      } else {
        read_letters(word);
      }
    }
    return std::move(line_);
  }

 private:
  std::string_view next_word() {
    const std::string_view word = left_.front();
    left_ = left_.subspan(1);
    return word;
  }

  void read_long(std::string_view word) {
    const std::size_t equals = word.find('=');
    std::optional<std::string_view> attached;
    if (equals != std::string_view::npos) attached = word.substr(equals + 1);
    take(find_long(word.substr(2, equals - 2), word), word, attached);
  }

  void read_letters(std::string_view word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const char letter = word[i];
      const auto own = std::ranges::find_if(own_, [&](const OwnOption& o) { return o.short_name == letter; });
      NamedOption named{.shared = find_letter(letter)};
      if (own != own_.end()) named = {.own = &*own};
      if (!named.found()) fail_letter(letter, word);
      if (named.argument().empty()) {
        take(named, word, std::nullopt);
        continue;
      }
      std::optional<std::string_view> attached;
      if (i + 1 < word.size()) attached = word.substr(i + 1);
      return take(named, word, attached);
    }
  }

  /// A whole name, or a prefix of exactly one option, for benchmarks only.
  NamedOption find_long(std::string_view name, std::string_view word) const {
    const auto own = std::ranges::find_if(own_, [&](const OwnOption& o) { return o.long_name == name; });
    if (own != own_.end()) return {.own = &*own};
    std::vector<const Option*> begin;
    for (const Option& o : all_options()) {
      if (o.long_name == name) return {.shared = &o};
      if (!name.empty() && o.long_name.starts_with(name)) begin.push_back(&o);
    }
    if (begin.size() == 1) return {.shared = begin.front()};
    fail_long(name, word, begin);
  }

  [[noreturn]] void fail_long(std::string_view name, std::string_view word,
                              const std::vector<const Option*>& candidates) const {
    if (name.empty()) fail(fmt::format("{} is not an option", in_quotes(word)));
    if (!candidates.empty()) {
      const auto names = mapped(candidates, [](const Option* o) { return fmt::format("--{}", o->long_name); });
      fail(fmt::format("{} may be {}", in_quotes(word), fmt::join(names, " or ")));
    }
    std::vector<std::string> names;
    for (const OwnOption& o : own_) names.emplace_back(o.long_name);
    for (const Option& o : all_options()) names.emplace_back(o.long_name);
    const std::string nearest = nearest_choice(name, names);
    fail(fmt::format("unknown option {}{}", in_quotes(word),
                     nearest.empty() ? "" : fmt::format("; did you mean --{}?", nearest)));
  }

  /// `attached`: the value in the same word.
  void take(const NamedOption& named, std::string_view word, std::optional<std::string_view> attached) {
    std::string text;
    if (named.argument().empty()) {
      if (attached) fail(fmt::format("{} takes no argument", named.shown()));
      text = "1";
    } else if (attached || named.argument().starts_with('[')) {
      text = attached.value_or("");
    } else {
      if (left_.empty()) fail(fmt::format("{} needs an argument", named.shown()));
      text = next_word();
    }
    if (named.own != nullptr) return apply(*named.own, text);
    const std::string_view name = named.shared->long_name;
    if (name == "help" || name == "version") {
      if (line_.action != CommandLine::Action::run) return;
      line_.action = name == "help" ? CommandLine::Action::help : CommandLine::Action::version;
    } else {
      accept(line_, *named.shared, word, text, scratch_);
    }
  }

  static void apply(const OwnOption& option, std::string_view text) {
    try {
      option.set(text);
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("--{}: {}", option.long_name, e.what()));
    }
  }

  std::span<const char* const> left_;
  std::span<const OwnOption> own_;
  PlainWords meant_;
  CommandLine line_;
  Config scratch_;
};

/// Short enough to type: 67108864 as 64M; bytes if no unit divides it.
std::string typed_size(std::uint64_t nbytes) {
  static constexpr std::string_view kUnits = "TGMK";
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    const int shift = 40 - 10 * static_cast<int>(i);
    if (nbytes != 0 && nbytes % (1ull << shift) == 0) return fmt::format("{}{}", nbytes >> shift, kUnits[i]);
  }
  return std::to_string(nbytes);
}

void require(bool good, const std::string& text) {
  if (!good) throw_bad_config(text);
}

void check_range(const Config& config) {
  if (config.minbytes <= config.maxbytes) return;
  const std::string first = typed_size(config.minbytes);
  const std::string last = typed_size(config.maxbytes);
  const Config defaults;
  if (config.maxbytes == defaults.maxbytes)
    throw_bad_config(fmt::format("-b {} alone fails because -e defaults to {}: add -e {}", first, last, first));
  if (config.minbytes == defaults.minbytes)
    throw_bad_config(fmt::format("-e {} alone fails because -b defaults to {}: add -b {}", last, first, last));
  throw_bad_config(fmt::format("the first size (-b {}) is above the last (-e {}): swap them or raise -e", first, last));
}

/// The statistical mode has its own loop; its options mean nothing without it.
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

CommandLine scan_arguments(int argc, const char* const* argv, std::span<const OwnOption> own, PlainWords words) {
  CommandLine line = ArgumentScanner(std::span(argv, static_cast<std::size_t>(argc)).subspan(1), own, words).scan();
  if (line.action == CommandLine::Action::run) check_size_conflict(line.settings);
  return line;
}

CommandLine scan_arguments(int argc, const char* const* argv) {
  CommandLine line = scan_arguments(argc, argv, {});
  if (line.action == CommandLine::Action::run && !line.words.empty()) {
    fail(fmt::format("unexpected argument {}: a value follows its option, as in -b 8M or --json=FILE.json",
                     in_quotes(line.words[0])));
  }
  return line;
}

void forget_sizes(Config& config) {
  const Config untouched;
  config.sizes.clear();
  config.minbytes = untouched.minbytes;
  config.maxbytes = untouched.maxbytes;
  config.stepbytes = untouched.stepbytes;
  config.stepfactor = untouched.stepfactor;
}

void check_size_conflict(const std::vector<Setting>& settings) {
  if (!sets(settings, "sizes") || !sets_range(settings)) return;
  throw_bad_config("--sizes is the whole list: leave out -b, -e, -f and -i, or leave out --sizes");
}

bool Configured::sets(std::string_view long_name) const { return busbar::sets(settings, long_name); }

Configured configure(const CommandLine& line, const std::optional<ConfigFile>& file, const ReadEnvironment& environment,
                     const Config& defaults, std::span<const YamlKey> own_keys) {
  Configured result;
  Config& config = result.config;
  config = defaults;
  apply_environment(config, environment);
  if (file) result.settings = apply_yaml(config, file->text, file->name, own_keys);
  config.config_file = line.config_file;
  for (const char* early : {"mpi-threads", "launcher", "meet-key"}) {
    if (!result.sets(early) || sets(line.settings, early)) continue;
    throw_bad_config(fmt::format("{0}: {1}: MPI is started before a file is read; give --{1} on the command line",
                                 file->name, early));
  }
  // The command line's sizes (list or range) replace the file's entirely, not only its numbers.
  if (sets(line.settings, "sizes") || (sets_range(line.settings) && !config.sizes.empty())) {
    forget_sizes(config);
    std::erase_if(result.settings, [](const Setting& s) { return sets({s}, "sizes") || sets_range({s}); });
  }
  for (const Setting& setting : line.settings) setting.option->set(config, setting.text);
  result.settings.insert(result.settings.end(), line.settings.begin(), line.settings.end());
  validate(config);
  return result;
}

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
