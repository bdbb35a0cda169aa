#include "driver/fingerprint/fingerprint_run.h"

#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/mpi/ompi_tuned.h"
#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/job/session_job.h"
#include "common/measure/buffer_plan.h"
#include "common/processes/child.h"
#include "common/processes/comm.h"
#include "common/processes/mpi/mpi_session.h"
#include "common/processes/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

// What the launches of `busbar fingerprint` run.

namespace busbar {
namespace {

[[noreturn]] void refuse(std::string_view line) {
  throw Error(ExitCode::backend,
              fmt::format("Open MPI's monitoring wrote a line that is not known: {}", in_quotes(line)));
}

std::string amount(const Sent& sent) {
  if (sent.messages == 0) return "nothing";
  return fmt::format("{}/{}", sent.messages, format_bytes(sent.nbytes));
}

namespace fs = std::filesystem;

/// Ten: a call that differs from the others leaves a remainder.
constexpr int kCalls = 10;

/// Set on the ranks' side by env(1), so that any launcher will do.
std::vector<std::string> probe_environment(const fs::path& files, const FingerprintSetting& setting) {
  std::vector<std::string> words{"env"};
  constexpr const char* kRules = "OMPI_MCA_coll_tuned_dynamic_rules_filename";
  const bool without_rules = setting.forced || (setting.rules_file && setting.rules_file->empty());
  if (without_rules) words.insert(words.end(), {"-u", kRules});
  // The probe turns them on itself; a user's 0 is about the setting in force.
  if (setting.forced) words.insert(words.end(), {"-u", "OMPI_MCA_coll_tuned_use_dynamic_rules"});
  words.insert(words.end(), {"OMPI_MCA_pml_monitoring_enable=2", "OMPI_MCA_pml_monitoring_enable_output=3",
                             fmt::format("OMPI_MCA_pml_monitoring_filename={}", files.string())});
  if (!without_rules && setting.rules_file) {
    words.push_back("OMPI_MCA_coll_tuned_use_dynamic_rules=1");
    words.push_back(fmt::format("{}={}", kRules, fs::absolute(*setting.rules_file).string()));
  }
  return words;
}

std::vector<std::string> probe_command(const FingerprintCase& c, const FingerprintSetting& setting, int calls) {
  std::vector<std::string> words{program_beside("busbar").string(), "fingerprint", std::string(c.collective->name)};
  words.insert(words.end(), {"--probe", std::to_string(calls), "--sizes", std::to_string(c.nbytes)});
  words.insert(words.end(), {"-d", std::string(name(c.dtype))});
  if (c.op) words.insert(words.end(), {"-o", std::string(name(*c.op))});
  if (c.collective->has_root) words.insert(words.end(), {"-r", std::to_string(c.root)});
  if (setting.forced) {
    words.insert(words.end(), {"--algorithm", std::to_string(setting.forced->algorithm), "--segmentsize",
                               std::to_string(setting.forced->segment_bytes)});
  }
  return words;
}

/// The same on all ranks.
void refuse_unsupported(const Backend& backend, const FingerprintCase& c) {
  const Operation op{c.collective, problem_of(c, backend.nranks()), c.dtype, c.op, false};
  std::string why = backend.why_unsupported(op).value_or("");
  if (why.empty() && c.collective->why_not != nullptr) why = c.collective->why_not(op.problem);
  if (why.empty() && c.collective->has_root && c.root >= backend.nranks()) {
    why = fmt::format("root {} is none of {} ranks", c.root, backend.nranks());
  }
  if (!why.empty()) throw Error(ExitCode::not_possible, why);
}

ExitCode probe(Job& job, const FingerprintCase& c, const OmpiChoice& forced, int calls) {
  const Comm& world = job.world();
  job.set_step("making the communicator");
  std::unique_ptr<Backend> backend;
  collectively(world, job.step(), [&] {
    std::vector<std::pair<std::string, std::string>> settings;
    if (forced.algorithm != 0) settings.emplace_back("ompi.algorithm", std::to_string(forced.algorithm));
    if (forced.segment_bytes != 0) settings.emplace_back("ompi.segmentsize", std::to_string(forced.segment_bytes));
    // The settings are checked before anything is sent, so that they fail alike on all or on none.
    const TunedSettings settled(*c.collective, settings, world.size());
    backend = make_mpi_backend(world, world.size());
    refuse_unsupported(*backend, c);
  });
  Case row{c.dtype, c.op, c.root, c.nbytes, problem_of(c, world.size()), 0};
  row.nbytes = message_bytes(*c.collective, row.problem);
  const Arena arena(*backend, row.nbytes, 0);
  const BufferPlan buffer_plan(*backend, arena, *c.collective, row, false, 0, 1);
  job.set_step("calling");
  for (int i = 0; i < calls; ++i) {
    backend->enqueue(0, buffer_plan.operation(), buffer_plan.lane_buffers(0, 0));
    backend->synchronize(0);
  }
  if (world.rank() == 0) {
    fmt::print("busbar-probe {} {} {} {}\n", world.size(), hostname(),
               backend->observe_end(buffer_plan.operation()).algorithm, mpi_library_version());
    std::fflush(stdout);
  }
  return ExitCode::good;
}

}  // namespace

std::vector<Sent> parse_monitoring(std::string_view text, int rank, int nranks) {
  std::vector<Sent> row(static_cast<std::size_t>(nranks));
  if (text.find("# POINT TO POINT") == std::string_view::npos) refuse(text.substr(0, text.find('\n')));
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("I\t") && !line.starts_with("E\t")) continue;
    std::istringstream fields(line.substr(1));
    int from = -1, to = -1;
    Sent sent;
    std::string bytes, messages;
    fields >> from >> to >> sent.nbytes >> bytes >> sent.messages >> messages;
    if (!fields || bytes != "bytes" || messages != "msgs" || from != rank || to < 0 || to >= nranks) refuse(line);
    Sent& sum = row[static_cast<std::size_t>(to)];
    sum = {sum.messages + sent.messages, sum.nbytes + sent.nbytes};
  }
  return row;
}

SentMatrix per_call(const SentMatrix& with, const SentMatrix& without, int calls) {
  SentMatrix result = with;
  const auto n = static_cast<std::uint64_t>(calls);
  for (std::size_t r = 0; r < with.size(); ++r) {
    for (std::size_t p = 0; p < with[r].size(); ++p) {
      const Sent a = with[r][p], b = without.at(r).at(p);
      const bool fits = a.messages >= b.messages && a.nbytes >= b.nbytes && (a.messages - b.messages) % n == 0 &&
                        (a.nbytes - b.nbytes) % n == 0;
      if (!fits) {
        throw Error(ExitCode::inconclusive,
                    fmt::format("rank {} did not send the same to rank {} in each of {} calls ({} messages, {} bytes "
                                "in all; without the calls {}, {}): no fingerprint",
                                r, p, calls, a.messages, a.nbytes, b.messages, b.nbytes));
      }
      result[r][p] = {(a.messages - b.messages) / n, (a.nbytes - b.nbytes) / n};
    }
  }
  return result;
}

Sent total(const std::vector<Sent>& row) {
  Sent sum;
  for (const Sent& sent : row) sum = {sum.messages + sent.messages, sum.nbytes + sent.nbytes};
  return sum;
}

std::string describe(const SentMatrix& sent) {
  std::map<Sent, std::vector<int>> alike;
  for (std::size_t r = 0; r < sent.size(); ++r) alike[total(sent[r])].push_back(static_cast<int>(r));
  if (alike.empty()) return "nothing";
  if (alike.size() == 1) {
    const Sent& all = alike.begin()->first;
    return fmt::format("{}, {} per rank", counted(all.messages, "message"), format_bytes(all.nbytes));
  }
  std::vector<std::pair<std::vector<int>, Sent>> groups;
  for (const auto& [amount_sent, ranks] : alike) groups.emplace_back(ranks, amount_sent);
  std::ranges::sort(groups);
  const auto most =
      std::ranges::max_element(groups, [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  std::vector<std::string> parts;
  const bool others = most->first.size() > 1;
  for (const auto& group : groups) {
    if (!others || &group != &*most)
      parts.push_back(fmt::format("r{} {}", compress_ranks(group.first), amount(group.second)));
  }
  if (others) parts.push_back("others " + amount(most->second));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void Fingerprinter::read_greeting(const ChildResult& result, const std::string& command) {
  if (!result.good()) {
    throw Error(as_exit_code(result.exit_code),
                fmt::format("the launch `{}` failed ({}): {}", command, describe_end(result, options_.launch_timeout_s),
                            last_words(result.err + result.out)));
  }
  constexpr std::string_view kSign = "busbar-probe ";
  const auto at = result.out.find(kSign);
  if (at != std::string::npos) {
    std::istringstream words(result.out.substr(at + kSign.size()));
    words >> nranks_ >> host_ >> shown_ >> std::ws;
    std::getline(words, library_);
  }
  if (at == std::string::npos || nranks_ < 1) {
    throw Error(ExitCode::not_possible, fmt::format("the launch `{}` reported nothing about its ranks", command));
  }
}

void Fingerprinter::refuse_missing(const fs::path& file, int rank) const {
  if (rank == 0 && host_ == hostname()) {
    throw Error(ExitCode::not_possible,
                fmt::format("{} counts no messages: it lacks its component pml/monitoring", library_));
  }
  throw Error(
      ExitCode::not_possible,
      fmt::format("rank {} of {} left no {} here: it writes on its own host; give --tmp a folder that all hosts share",
                  rank, nranks_, file.string()));
}

SentMatrix Fingerprinter::launch(const FingerprintCase& c, const FingerprintSetting& setting, int calls) {
  const fs::path files = folder_.file(fmt::format("launch{}", launches_++));
  std::vector<std::string> command = probe_environment(files, setting);
  for (std::string& word : probe_command(c, setting, calls)) command.push_back(std::move(word));
  const std::vector<std::string> argv = launch_command(options_.launch, std::nullopt, command);
  read_greeting(launch_child(argv, options_.launch_timeout_s), joined_words(argv));

  SentMatrix sent;
  for (int rank = 0; rank < nranks_; ++rank) {
    const fs::path file = fmt::format("{}.{}.prof", files.string(), rank);
    std::error_code ignored;
    if (!fs::exists(file, ignored)) refuse_missing(file, rank);
    sent.push_back(parse_monitoring(read_file(file, "a rank's counts"), rank, nranks_));
    fs::remove(file, ignored);
  }
  return sent;
}

SentMatrix Fingerprinter::measure(const FingerprintCase& c, const FingerprintSetting& setting) {
  // Rules and variables of the environment also steer what start and end of a launch send, so they must be the same
  // there; what the probe forces meets its own communicator alone.
  FingerprintSetting idle_setting = setting;
  if (setting.forced) idle_setting.forced = OmpiChoice{};
  SentMatrix& idle = idle_[fmt::format("{}", fmt::join(probe_environment("", setting), "\n"))];
  if (idle.empty()) idle = launch(c, idle_setting, 0);
  const int ranks_before = nranks_;
  // A call that Open MPI refuses would end the probe; one that it replaces by another may be measured.
  const MpiCollective* const collective = setting.forced ? ompi_collective(c.collective->id) : nullptr;
  if (const Problem problem = problem_of(c, nranks_);
      collective && refuses_call(*collective, *setting.forced, problem)) {
    throw Error(ExitCode::not_possible, why_not(*collective, *setting.forced, problem).value_or(""));
  }
  const SentMatrix busy = launch(c, setting, kCalls);
  if (nranks_ != ranks_before) throw Error(ExitCode::inconclusive, "two launches had different numbers of ranks");
  return per_call(busy, idle, kCalls);
}

Problem problem_of(const FingerprintCase& c, int nranks) {
  static const Traffic kTraffic;
  const std::size_t w = size_of(c.dtype);
  return {c.collective->count(c.nbytes / w, nranks, w, &kTraffic), w, nranks, c.root, &kTraffic};
}

std::vector<KnownFingerprint> measure_algorithms(Fingerprinter& fingerprinter, const FingerprintCase& c,
                                                 const std::vector<OmpiChoice>& more) {
  const MpiCollective* collective = ompi_collective(c.collective->id);
  if (collective == nullptr) return {};
  auto choices = mapped(collective->algorithms, [](const MpiAlgorithm& a) { return OmpiChoice{a.id, 0}; });
  choices.insert(choices.end(), more.begin(), more.end());
  std::vector<KnownFingerprint> result;
  for (const OmpiChoice& choice : choices) {
    KnownFingerprint& known = result.emplace_back();
    known.choice = choice;
    known.why_not = why_not(*collective, choice, problem_of(c, fingerprinter.nranks())).value_or("");
    if (known.why_not.empty()) known.sent = fingerprinter.measure(c, {choice, std::nullopt});
  }
  return result;
}

std::vector<OmpiChoice> consistent(const SentMatrix& sent, const std::vector<KnownFingerprint>& known) {
  std::vector<OmpiChoice> result;
  for (const KnownFingerprint& k : known) {
    if (k.why_not.empty() && k.sent == sent) result.push_back(k.choice);
  }
  return result;
}

int run_fingerprint_probe(int argc, char** argv, const FingerprintCase& c, const std::optional<OmpiChoice>& forced,
                          int calls) {
  if (forced) prepare_ompi_variation();
  return run_session(argc, argv, detect_launch(), {}, [&](Job& job) {
    job.watchdog().rest();  // the launching busbar has a limit for it
    return probe(job, c, forced.value_or(OmpiChoice{}), calls);
  });
}

}  // namespace busbar
