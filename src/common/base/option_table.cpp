#include "common/base/enum_words.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/text.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <optional>

namespace busbar {
namespace {

using Text = std::string_view;

/// Sets the enumerator of that word; otherwise throws an error that lists all. `wanted`: "a cadence".
template <class Enum>
void choose(Enum& value, Text text, Text wanted) {
  const std::optional<Enum> known = from_word<Enum>(text);
  if (!known) reject_text(text, fmt::format("{}; choose from: {}", wanted, fmt::join(words_of(value), " ")));
  value = *known;
}

template <int Config::*field, int least, int most = std::numeric_limits<int>::max()>
void set_int(Config& config, Text text) {
  config.*field = parse_int(text, least, most);
}

template <bool Config::*field>
void set_switch(Config& config, Text text) {
  config.*field = parse_switch(text);
}

template <std::string Config::*field>
void set_file(Config& config, Text text) {
  if (text.empty()) reject_text(text, "a file name");
  config.*field = text;
}

std::uint64_t positive_bytes(Text text) {
  const std::uint64_t nbytes = parse_bytes(text);
  if (nbytes == 0) reject_text(text, "a size of at least 1 byte");
  return nbytes;
}

template <std::uint64_t Config::*field>
void set_bytes(Config& config, Text text) {
  config.*field = positive_bytes(text);
}

/// The items between commas, spaces around them dropped.
std::vector<Text> items_of(Text text) {
  return mapped(split_list(text), [](Text item) { return trimmed(item, " "); });
}

void set_sizes(Config& config, Text text) {
  std::vector<std::uint64_t> sizes = mapped(items_of(text), positive_bytes);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  config.sizes = sizes;
  // The header and JSON name the range in either case.
  config.minbytes = sizes.front();
  config.maxbytes = sizes.back();
}

/// Comma-separated names, or `all`; a name given twice counts once.
template <typename T, typename All, typename Parse>
std::vector<T> parse_names(Text text, const All& all, Parse parse, Text wanted) {
  std::vector<T> values;
  for (const Text item : items_of(text)) {
    if (item == "all") {
      values.assign(all.begin(), all.end());
      continue;
    }
    const std::optional<T> value = parse(item);
    if (!value) reject_text(item, wanted);
    if (!contains(values, *value)) values.push_back(*value);
  }
  return values;
}

void set_ops(Config& config, Text text) {
  config.ops = parse_names<Op>(text, kAllOps, parse_op, fmt::format("an operation; choose from: {}", kOpChoices));
}

void set_dtypes(Config& config, Text text) {
  config.dtypes =
      parse_names<DType>(text, kAllDTypes, parse_dtype, fmt::format("a type; choose from: {}", dtype_choices()));
}

void set_root(Config& config, Text text) {
  config.all_roots = text == "all" || text == "-1";
  config.root = config.all_roots ? 0 : parse_int(text, 0);
}

void set_timeout(Config& config, Text text) { config.timeout_s = parse_double(text, 0, 1e9); }

void set_output_file(Config& config, Text text) {
  if (text != "-" && (text.size() <= 5 || !text.ends_with(".json")))
    reject_text(text, "a file ending in .json, the only format it writes, or - for stdout");
  config.output_file = text;
}

template <double Config::*field>
void set_seconds(Config& config, Text text) {
  config.*field = parse_duration(text);
}

void set_rel_ci(Config& config, Text text) {
  const double value = parse_fraction(text);
  if (value <= 0 || value >= 1) reject_text(text, "a width between 0 and 100%, such as 1%");
  config.rel_ci = value;
}

constexpr Text kDTypeHelp =
    "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2, a comma list, or all";
static_assert(std::ranges::all_of(kElementTypes,
                                  [](const ElementType& type) { return kDTypeHelp.find(type.name) != Text::npos; }));

using C = Config;

// clang-format off
constexpr std::array kOptions{
    Option{'t', "nthreads", "N", "1", "host threads per process", false, set_int<&C::nthreads, 1, 1024>},
    Option{'g', "ngpus", "N", "1", "GPUs per thread; ranks = processes x threads x GPUs", false, set_int<&C::ngpus, 1, 1024>},
    Option{'b', "minbytes", "SIZE", "32M", "first size", false, set_bytes<&C::minbytes>},
    Option{'e', "maxbytes", "SIZE", "32M", "upper bound of the sizes, inclusive", false, set_bytes<&C::maxbytes>},
    Option{'i', "stepbytes", "SIZE", "1M", "difference of successive sizes, used if -f is at most 1", false, set_bytes<&C::stepbytes>},
    Option{'f', "stepfactor", "X", "1", "ratio of successive sizes; at most 1: sizes grow by -i", false, [](C& c, Text text) { c.stepfactor = parse_double(text, 0); }},
    Option{'n', "iters", "N", "20", "timed iterations", false, set_int<&C::iters, 1>},
    Option{'m', "agg_iters", "N", "1", "operations per iteration, launched as one group; time is divided by n x m", false, set_int<&C::agg_iters, 1>},
    Option{'w', "warmup_iters", "N", "1", "warm-up iterations of each placement", false, set_int<&C::warmup_iters, 0>},
    Option{'N', "run_cycles", "N", "1", "repeat the whole sweep; 0: for ever", false, set_int<&C::run_cycles, 0>},
    Option{'p', "parallel_init", "0|1", "0", "threads create their communicators in parallel", false, set_switch<&C::parallel_init>},
    Option{'c', "check", "N", "1", "verification iterations per row; 0: off, #wrong prints N/A", false, set_int<&C::check, 0>},
    Option{'o', "op", "OP", "sum", "sum prod max min avg mulsum, a comma list, or all", true, set_ops},
    Option{'d', "datatype", "TYPE", "float", kDTypeHelp, true, set_dtypes},
    Option{'r', "root", "RANK", "0", "root; all or -1: every rank in turn", false, set_root},
    Option{'z', "blocking", "0..3", "0", "1: wait and barrier after each operation; 2: wait only; 3: wait and barrier after each iteration, the barrier not timed", false, set_int<&C::blocking, 0, 3>},
    Option{'y', "stream_null", "0|1", "0", "use the NULL stream", false, set_switch<&C::stream_null>},
    Option{'T', "timeout", "SECONDS", "(by step)", "report and end the job if a step makes no progress for so long; by default 30 s or 20 times the expected time; 0: never", false, set_timeout},
    Option{'G', "cudagraph", "N", "0", "capture the iterations in a CUDA graph and launch it N times; 0: off", false, set_int<&C::cudagraph, 0>},
    Option{'C', "report_cputime", "0|1", "0", "report the host time to enqueue instead of the time to finish", false, set_switch<&C::report_cputime>},
    Option{'a', "average", "0..3", "1", "the reported time: 0 rank 0, 1 average over ranks, 2 min, 3 max", false, [](C& c, Text text) { c.average = static_cast<Average>(parse_int(text, 0, 3)); }},
    Option{'R', "local_register", "0..2", "0", "register the buffers: 1 ncclCommRegister, 2 symmetric window", false, set_int<&C::local_register, 0, 2>},
    Option{'x', "cta_policy", "0..2", "(unset)", "NCCL's CTA policy: 0 default, 1 efficiency, 2 zero", false, [](C& c, Text text) { c.cta_policy = parse_int(text, 0, 2); }},
    Option{'D', "device_implementation", "0..4", "0", "device API kernels instead of NCCL's: all_reduce 1 LSA, 2 LSA by vectors, 3 multimem, 4 multimem by vectors; alltoall 1, 2 the same, 3 GIN, 4 GIN and LSA; needs -R 2", false, set_int<&C::device_implementation, 0, 4>},
    Option{'V', "device_cta_count", "1..128", "16", "CTAs of the device API kernels", false, set_int<&C::device_cta_count, 1, 128>},
    Option{'J', "output_file", "FILE.json", "(none)", "write the results as JSON; an existing file is kept, FILE.json.0 is written; -: to stdout, and the table to stderr", false, set_output_file},
    Option{'S', "report_timestamps", "0|1", "0", "add the time of day to each row", false, set_switch<&C::report_timestamps>},
    Option{'M', "memory", "0|1", "0", "report memory use at the end", false, set_switch<&C::memory_report>},
    Option{'u', "unalign", "N", "0", "shift both buffers by N elements", false, set_int<&C::unalign, 0, 1 << 20>},
    Option{'I', "per_iter_timing", "0|1", "0", "time each iteration: adds i_min, i_max, i_p99 and i_cv% to the row", false, set_switch<&C::per_iter_timing>},
    Option{'K', "per_iter_skip", "N", "0", "leave the first N iterations out of the -I figures", false, set_int<&C::per_iter_skip, 0>},
    Option{'h', "help", "", "", "print this and exit", false, nullptr},

    Option{0, "config", "FILE.yaml", "(none)", "read options from a file, whose keys are the long names; the command line overrides it", false, nullptr},
    Option{0, "sizes", "LIST", "(none)", "exactly these sizes, such as 8,1K,4M; instead of -b -e -f -i", true, set_sizes},
    Option{0, "placement", "out|in|both", "both", "the halves of a row to measure", false, [](C& c, Text text) { choose(c.placement, text, "a placement"); }},
    Option{0, "backend", kBackendChoices, "auto", "auto: NCCL if every rank has a GPU, MPI on host memory if no host has one", false, [](C& c, Text text) { choose(c.backend, text, "a backend"); }},
    Option{0, "buffers", "rotate|reuse", "rotate", "rotate: each call uses the next message in a buffer of -e bytes, so that caches keep none; reuse: all calls use one, as in OSU and IMB", false, [](C& c, Text text) { choose(c.buffers, text, "a use of the buffers"); }},
    Option{0, "nonblocking", "", "", "call MPI's nonblocking functions and wait for each; adds the column start, the time to start a call", false, set_switch<&C::nonblocking>},
    Option{0, "mpi-threads", "single|funneled|serialized|multiple", "single", "thread level requested from MPI; above single, libraries take locks; command line only", false, [](C& c, Text text) { choose(c.mpi_threads, text, "a thread level of MPI"); }},
    Option{0, "launcher", "auto|mpi|env|slurm|k8s|none", "auto", "whose variables say which rank this is: mpi: an MPI's launcher; env: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; none: one process alone; command line only", false, [](C& c, Text text) { choose(c.launcher, text, "a launcher"); }},
    Option{0, "meet-key", "FILE", "(none)", "only processes with the same key in this file may join a job without MPI; command line only", false, set_file<&C::meet_key>},
    Option{0, "pattern", "latency|oneway|both", "latency", "for pingpong: latency: a message there and one back; oneway, both: windows of messages, one way or both ways at once", false, [](C& c, Text text) { choose(c.pattern, text, "a pattern"); }},
    Option{0, "window", "N", "64", "for pingpong's oneway and both: messages in flight at once", false, set_int<&C::window, 1, 65536>},
    Option{0, "pairs", "half|all", "half", "for pingpong: half: rank i with i + n/2; all: every rank with every other in turn, a row per round", false, [](C& c, Text text) { choose(c.pairs, text, "a choice of pairs"); }},
    Option{0, "ranks-per-gpu", "N", "1", "put N processes on each GPU: a functional run, its times mean little", false, set_int<&C::ranks_per_gpu, 1, 64>},
    Option{0, "json", "[=FILE.json]", "(none)", "the same as -J; without a file as -J -", false, nullptr},
    Option{0, "fail-on-skip", "", "", "end with 8 if rows were skipped, also if all were", false, set_switch<&C::fail_on_skip>},
    Option{0, "csv", "FILE", "(none)", "write the rows as CSV", false, set_file<&C::csv>},
    Option{0, "history", "FILE", "(none)", "add the run to this SQLite file, for `busbar history`", false, set_file<&C::history>},
    Option{0, "dry-run", "", "", "print the plan and the memory it needs, measure nothing", false, set_switch<&C::dry_run>},
    Option{0, "topology", "", "", "show where each rank is bound, and the locality of GPUs and network cards", false, set_switch<&C::topology>},
    Option{0, "hang-timeout", "SECONDS", "(by step)", "the same as -T", false, set_timeout},
    Option{0, "paranoid", "", "", "before each case all ranks compare what they are about to call; exit code 6 if one deviates", false, set_switch<&C::paranoid>},
    Option{0, "inject", "FAULT", "(none)", "break one rank on purpose, to test alarms: rank=3,op=42,kind= one of skip late:5s count dtype op stop kill crash flip drop double shift overrun", true, [](C& c, Text text) { c.inject = parse_injection(text); }},
    Option{0, "stat", "", "", "statistical mode: sample until the median is known to --rel-ci; time is the median; adds mean, +-CI%, p99, samples and why it stopped", false, set_switch<&C::stat>},
    Option{0, "rel-ci", "X%", "1%", "with --stat: half width of the 95 % interval at which a cell is done", false, set_rel_ci},
    Option{0, "min-time", "SECONDS", "0", "with --stat: time each cell for at least so long", false, set_seconds<&C::min_time_s>},
    Option{0, "max-time", "SECONDS", "120", "with --stat: time limit of the whole run", false, set_seconds<&C::max_time_s>},
    Option{0, "cell-time", "SECONDS", "20", "with --stat: time limit of one placement of one row", false, set_seconds<&C::cell_time_s>},
    Option{0, "epochs", "N", "400", "with --stat: maximum number of epochs per cell", false, set_int<&C::epochs, 6, 100000>},
    Option{0, "seed", "N", "0", "with --stat: seed of the order of cells; 0: drawn and printed", false, [](C& c, Text text) { c.seed = static_cast<std::uint64_t>(parse_int(text, 0)); }},
    Option{0, "cadence", "auto|isolated|stream", "auto", "with --stat: each call after a barrier, or back to back; auto: isolated on host memory, stream on GPUs", false, [](C& c, Text text) { choose(c.cadence, text, "a cadence"); }},
    Option{0, "per-rank", "", "", "with --stat: print each rank's own time, its lateness and how often it came last", false, set_switch<&C::per_rank>},
    Option{0, "skew", "", "", "with --stat: add the spread of the ranks' entry times", false, set_switch<&C::skew>},
    Option{0, "samples", "FILE", "(none)", "with --stat: write every sample as CSV", false, set_file<&C::samples_file>},
    Option{0, "show-algo", "", "", "add the algorithm, protocol and channels that ran to each row", false, set_switch<&C::show_algo>},
    Option{0, "show-prediction", "", "", "with --show-algo: add the library's own prediction and measured/predicted (NCCL)", false, set_switch<&C::show_prediction>},
    Option{0, "version", "", "", "print the version and exit", false, nullptr},
};
// clang-format on

constexpr std::size_t kHelpColumn = 38;
constexpr char kFixedSpace = '\v';  ///< a space at which no line ends

/// The terminal's last column, if the shell exports it.
std::size_t last_column() {
  constexpr std::size_t kUsual = 100;
  const char* const text = std::getenv("COLUMNS");
  const std::size_t columns = text != nullptr ? std::strtoul(text, nullptr, 10) : 0;
  return columns >= kHelpColumn + 32 && columns <= 1000 ? columns : kUsual;
}

constexpr std::string_view kExitCodes =
    "    0  good (also when every row was skipped, with the reason)\n"
    "    1  internal error\n"
    "    2  CUDA error\n"
    "    3  NCCL, MPI or hardware error\n"
    "    4  hang or timeout\n"
    "    5  not enough devices, or not possible with this backend\n"
    "    6  invalid use found at run time\n"
    "    7  wrong data, or bandwidth below the threshold\n"
    "    8  inconclusive\n"
    "  255  bad command line or configuration\n";

bool of_nccl_tests(const Option& option) { return option.short_name != 0; }

std::string with_default(const Option& option) {
  const std::string_view text = option.default_text;
  if (text.empty() || text.front() == '(') return std::string(option.help);
  return fmt::format("{} (default:{}{})", option.help, kFixedSpace, text);
}

std::string option_lines(bool nccl_tests, std::span<const std::string_view> only) {
  std::string text;
  for (const Option& o : all_options()) {
    if (of_nccl_tests(o) != nccl_tests || (!only.empty() && !contains(only, o.long_name))) continue;
    const std::string letter = o.short_name != 0 ? fmt::format("-{}, ", o.short_name) : "    ";
    const std::string argument = fmt::format("{}{}", o.argument.empty() || o.argument[0] == '[' ? "" : " ", o.argument);
    text += help_entry(fmt::format("  {}--{}{}", letter, o.long_name, argument), with_default(o));
  }
  return text;
}

std::string environment_lines() {
  std::string text;
  for (const EnvironmentVariable& v : all_environment_variables())
    text += help_entry(fmt::format("  {}", v.name), v.help);
  return text;
}

}  // namespace

std::span<const Option> all_options() { return kOptions; }

std::string label(const Option& option) {
  if (option.short_name == 0) return fmt::format("--{}", option.long_name);
  return fmt::format("-{}/--{}", option.short_name, option.long_name);
}

std::string help_entry(const std::string& left, std::string_view right) {
  std::string text = wrapped(right, kHelpColumn, kHelpColumn, last_column());
  if (left.size() + 2 > kHelpColumn) {
    text.insert(0, left + '\n');
  } else {
    text.replace(0, left.size(), left);
  }
  std::ranges::replace(text, kFixedSpace, ' ');
  return text;
}

std::string help_text(std::string_view program, const ProgramHelp& help) {
  return fmt::format(
      "usage: {0} [options]\n"
      "       mpirun -n 4 {0} {5}\n"
      "{6}\n"
      "A SIZE is a number, optionally with K, M, G or T (powers of 1024): 8, 1.5K, 64M, 1GiB.\n"
      "Options take -b8, -b 8, --minbytes=8 and --minbytes 8.\n"
      "\n"
      "Options of nccl-tests:\n{1}\n"
      "Our own options:\n{2}\n"
      "Environment:\n{3}\n"
      "Exit codes:\n{4}",
      program, option_lines(true, help.options), option_lines(false, help.options), environment_lines(), kExitCodes,
      help.example, help.about.empty() ? "" : fmt::format("\n{}\n", help.about));
}

}  // namespace busbar
