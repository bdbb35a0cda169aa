#include "driver/accept/accept_launcher.h"

#include "common/base/error.h"
#include "common/base/program_beside.h"
#include "common/base/read_file.h"
#include "common/output/report_file.h"
#include "common/record/accept_json.h"
#include "driver/accept/accept_failure.h"
#include "driver/compare/launch_rounds.h"
#include "driver/launch/launch_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

namespace busbar {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeptOutput = 1 << 20;
// [s] A healthy start takes seconds; ssh to a host that is silent takes minutes, and would take them once per halving.
double start_timeout_s(std::size_t hosts) { return 20 + 0.1 * static_cast<double>(hosts); }

constexpr std::array<std::string_view, 5> kCountOptions{"-n", "-np", "--np", "-c", "--ntasks"};

/// Where the number of ranks stands in the command, written out.
std::size_t count_word(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i + 1 < words.size() && words[i] != "{cmd}"; ++i) {
    if (std::find(kCountOptions.begin(), kCountOptions.end(), words[i]) != kCountOptions.end()) return i + 1;
  }
  return words.size();
}

int whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

std::string joined(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(quote_for_shell(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

/// A plan's file is found from any directory, a shipped plan by its name.
std::string plan_word(const std::string& plan) {
  std::error_code unknown;
  return fs::exists(plan, unknown) ? fs::absolute(plan, unknown).string() : plan;
}

}  // namespace

AcceptLauncher::AcceptLauncher(const AcceptOptions& options, std::string results)
    : options_(options),
      part_file_(fs::absolute(results + ".part").string()),
      host_file_(fs::absolute(results + ".hosts").string()),
      words_(split_command(options.launch)),
      hosts_(launch_hosts(words_)) {
  if (words_.empty())
    throw Error(ExitCode::bad_config, "--launch is empty; give it a command such as \"mpirun -n 16\"");
  const std::size_t count = count_word(words_);
  if (options.nranks) {
    nranks_ = *options.nranks;
  } else if (count < words_.size() && words_[count] != "{ranks}") {
    nranks_ = whole_number(words_[count]);
  } else {
    for (const LaunchHost& host : hosts_) nranks_ += host.slots;
  }
  command(Work{}, {});  // a command that cannot be filled in is an error now
}

AcceptLauncher::~AcceptLauncher() {
  std::error_code ignored;
  fs::remove(part_file_, ignored);
  fs::remove(host_file_, ignored);
}

int AcceptLauncher::ranks_on(const std::string& host) const {
  const auto seen = std::find_if(seen_.begin(), seen_.end(), [&](const auto& h) { return h.name == host; });
  if (seen != seen_.end()) return static_cast<int>(seen->ranks.size());
  const auto named = std::find_if(hosts_.begin(), hosts_.end(), [&](const LaunchHost& h) { return h.name == host; });
  if (named == hosts_.end()) return 0;
  int slots = 0;
  for (const LaunchHost& h : hosts_) slots += h.slots;
  // As many ranks as slots, as a rule; else in proportion.
  return nranks_ == 0 ? named->slots : std::max(1, nranks_ * named->slots / std::max(slots, 1));
}

std::vector<std::string> AcceptLauncher::command(const Work& work, const std::set<std::string>& excluded) const {
  std::vector<std::string> program = environment_words(work.environment);
  program.push_back(program_beside("busbar").string());
  program.emplace_back("accept");
  program.push_back(plan_word(options_.plan_file));
  program.push_back(fmt::format("--part={}", fmt::join(work.ids, ",")));
  program.push_back("--part-results=" + part_file_);
  program.push_back(fmt::format("--repetition={}", work.repetition));
  if (work.left_s > 0) program.push_back(fmt::format("--left={:.0f}", std::max(1.0, work.left_s)));
  for (std::string& word : passed_on(options_)) program.push_back(std::move(word));

  int nranks = nranks_;
  for (const std::string& host : excluded) nranks -= ranks_on(host);
  ReducedLaunch reduced = without_hosts(words_, excluded, host_file_);
  if (!reduced.hostfile_text.empty()) replace_file(host_file_, reduced.hostfile_text);
  const std::size_t count = count_word(reduced.words);
  const bool is_written = count < reduced.words.size() && whole_number(reduced.words[count]) > 0;
  if (!excluded.empty() && is_written && nranks > 0) reduced.words[count] = std::to_string(nranks);
  return launch_command(joined(reduced.words), nranks > 0 ? std::optional(nranks) : std::nullopt, program);
}

LaunchedPart AcceptLauncher::run(const Work& work) {
  std::error_code ignored;
  fs::remove(part_file_, ignored);
  const auto started = fs::file_time_type::clock::now();
  const ChildResult child =
      run_child(command(work, excluded_),
                {.environment = launch_environment(), .timeout_s = work.timeout_s, .output_limit = kKeptOutput});
  LaunchedPart part;
  std::string unreadable;
  if (fs::exists(part_file_, ignored)) {
    try {
      part.results = read_accept_json(read_file(part_file_, "a launch's results"), "a launch's results");
      learn(part.results->hosts);
    } catch (const Error& e) {
      unreadable = e.what();
    }
  }
  if (child.good() && part.results) return part;
  std::vector<std::string> known;
  for (const LaunchHost& host : hosts_) known.push_back(host.name);
  for (const AcceptResult::Host& host : seen_) known.push_back(host.name);
  part.failure = explain_failure(child, {.timeout_s = work.timeout_s, .started = started, .hosts = known});
  part.failure->stage = work.stage;
  if (child.good()) {
    part.failure->text =
        unreadable.empty() ? "it ended well but left no results here: does its rank 0 run on another host? Start in a "
                             "directory that all hosts share"
                           : unreadable;
  }
  return part;
}

bool AcceptLauncher::exclude(const std::vector<std::string>& hosts) {
  if (hosts.empty() || !can_exclude(words_)) return false;
  const bool is_named = !hosts_.empty();
  bool changed = false;
  for (const std::string& host : hosts) {
    const bool known = std::any_of(hosts_.begin(), hosts_.end(), [&](const LaunchHost& h) {
      return h.name.substr(0, h.name.find('.')) == host.substr(0, host.find('.'));
    });
    if (!is_named || known) changed = excluded_.insert(host).second || changed;
  }
  // Somebody must be left.
  if (changed && is_named && excluded_.size() >= hosts_.size()) {
    for (const std::string& host : hosts) excluded_.erase(host);
    return false;
  }
  return changed;
}

bool AcceptLauncher::starts(const std::vector<std::string>& hosts) {
  std::set<std::string> others;
  for (const LaunchHost& host : hosts_) {
    if (std::find(hosts.begin(), hosts.end(), host.name) == hosts.end()) others.insert(host.name);
  }
  Work work;
  work.ids = {std::string(kStartOnly)};
  return run_child(command(work, others), {.environment = launch_environment(),
                                           .timeout_s = start_timeout_s(hosts.size()),
                                           .output_limit = kKeptOutput})
      .good();
}

void AcceptLauncher::find_dead(const std::vector<std::string>& hosts, std::vector<std::string>& dead) {
  if (starts(hosts)) return;
  if (hosts.size() == 1) {
    dead.push_back(hosts.front());
    return;
  }
  const auto middle = hosts.begin() + static_cast<std::ptrdiff_t>(hosts.size() / 2);
  find_dead({hosts.begin(), middle}, dead);
  find_dead({middle, hosts.end()}, dead);
}

std::vector<std::string> AcceptLauncher::hosts_left() const {
  std::vector<std::string> hosts;
  for (const LaunchHost& host : hosts_) {
    if (!excluded_.contains(host.name)) hosts.push_back(host.name);
  }
  return hosts;
}

std::vector<std::string> AcceptLauncher::hosts_that_do_not_start() {
  const std::vector<std::string> hosts = hosts_left();
  if (hosts.size() < 2) return {};
  std::vector<std::string> dead;
  find_dead(hosts, dead);
  // Where nothing starts at all, it is the command and not the hosts.
  return dead.size() == hosts.size() ? std::vector<std::string>{} : dead;
}

double launch_timeout_s(const AcceptPlan& plan, double measuring_s) {
  // Many times what measuring should take: the job's own watchdog names a culprit before.
  constexpr double kLeast = 180;
  return plan.stage_timeout_s > 0 ? plan.stage_timeout_s : kLeast + 5 * measuring_s;
}

}  // namespace busbar
