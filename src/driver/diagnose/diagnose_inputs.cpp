#include "driver/diagnose/diagnose_inputs.h"

#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/evidence/evidence_fields.h"
#include "common/machine/error_counters.h"
#include "common/machine/mapped_nccl.h"
#include "common/machine/network.h"
#include "common/processes/session.h"
#include "common/watch/local_evidence.h"
#include "common/watch/ras.h"
#include "common/watch/ras_answer.h"
#include "driver/diagnose/line_blocks.h"
#include "driver/diagnose/looks/judge_looks.h"
#include "driver/diagnose/program_lines.h"
#include "driver/readers/call_records.h"
#include "driver/readers/log_line.h"
#include "driver/rules/line_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <variant>

namespace busbar {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestFlight = 64 << 10;

/// The answers of RAS in a file that holds nothing else; else none.
std::vector<std::string> only_ras(const fs::path& path) {
  const std::string text = read_piece(path, kMostFileBytes).text;
  RasBlocks blocks;
  for (const std::string_view line : split_text(text, '\n')) {
    const std::string plain = builtin_line_rules().without("colours", line);
    if (!blocks.add(plain) && !builtin_line_rules().has("ras-greetings", plain)) return {};
  }
  return blocks.take();
}

/// Each against the one before. `host`: where it was asked, or the file.
void read_answers(std::span<const std::string> answers, const std::string& host, std::string& before,
                  std::vector<RasEvidence>& found) {
  for (const std::string& answer : answers) {
    RasEvidence evidence = read_ras(answer, before);
    if (!evidence.answered) continue;
    evidence.host = host;
    found.push_back(std::move(evidence));
    before = answer;
  }
}

/// Returns what is wrong with the report; empty: it was read.
std::string read_hang(const fs::path& path, DiagnoseInputs& inputs) {
  try {
    const std::string text = read_piece(path, kMostFileBytes).text;
    if (builtin_line_rules().has("looks", std::string_view(text).substr(0, kHead))) {
      inputs.looks.push_back(read_triage_document(text, "looks that are not read"));
    } else {
      inputs.hangs.push_back(read_hang_json(text, "a hang report that is not read"));
    }
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

bool is_alive(const RankEvidence& rank) { return rank.process.life == ProcessState::Life::alive; }

/// How to ask NCCL's RAS about the job's processes on this host; empty if they run without NCCL.
std::optional<RasQuestion> ras_question(const HostEvidence& host, const RasHazards& hazards) {
  std::optional<int> version;
  for (const RankEvidence& rank : host.ranks) {
    if (!is_alive(rank)) continue;
    version = mapped_nccl_version(rank.flight.pid);
    if (version && *version > 0) break;
  }
  return version ? std::optional(safe_ras_question(*version, hazards)) : std::nullopt;
}

/// Watches for a moment what runs on this host now, and asks RAS before and after it.
void look_here(HostEvidence& host, const RasHazards& hazards, std::vector<RasEvidence>& ras) {
  constexpr std::chrono::duration<double> kApart(2);  // [s]
  const std::optional<RasQuestion> question = ras_question(host, hazards);
  const bool asks = question && question->format != RasFormat::none;
  RasObserver observer;
  if (asks) observer.observe_early(question->format);
  const auto before = error_counters();
  const std::uint64_t bytes = network_bytes();
  std::this_thread::sleep_for(kApart);
  host.net_bytes_per_s = static_cast<double>(network_bytes() - bytes) / kApart.count();
  host.troubles = host_troubles(before);
  if (!question) return;
  RasEvidence& answer = ras.emplace_back();
  answer.why_not = question->why_not;
  if (asks) answer = observer.look_again(question->format);
  answer.host = host.host;
}

/// What this host knows in addition to the records, which may be of several hosts.
void look_at_this_host(HangEvidence& evidence) {
  for (HostEvidence& host : evidence.hosts) {
    if (host.host != evidence.reporter_host) continue;
    if (std::ranges::any_of(host.ranks, is_alive)) {
      look_here(host, ras_hazards(evidence), evidence.ras);
    } else {
      host.troubles = host_troubles(error_counters());
    }
  }
}

constexpr std::size_t kLongestShown = 400;  // of a line that was not understood

/// The rank that a dump's file is named after: "nccl_trace_rank_3", "fr_trace_3.json".
int rank_of_dump(const fs::path& path) {
  const std::string name = path.filename().string();
  const int rank = file_name_rank(name);
  return rank >= 0 ? rank : number_of<int>(builtin_line_rules().facts_in("dump-names", name)["rank"]).value_or(-1);
}

/// Whether the file is a dump of PyTorch's Flight Recorder; then reads it, or reports why not.
bool read_dump(const InputFile& input, std::size_t index, JobBook& job, LogFile& file) {
  const Piece head = read_piece(input.opens, kHead);
  if (!looks_like_torch_dump(head.text)) return false;
  file.bytes = head.size;
  if (head.size > kMostFileBytes) {
    file.trouble = "a dump of PyTorch's Flight Recorder that is too large";
    return true;
  }
  try {
    for (TorchDump& dump : read_torch_dumps(read_piece(input.opens, kMostFileBytes).text, "not read")) {
      if (dump.rank < 0) dump.rank = rank_of_dump(input.path);
      for (const TorchDump::Group& group : dump.groups) file.lines += group.calls.size();
      job.add(dump, index);
    }
    file.nccl_lines = file.lines;
  } catch (const Error& error) {
    file.trouble = std::string("a dump of PyTorch's Flight Recorder, ") + error.what();
  }
  return true;
}

/// Takes answers of RAS in the middle of logs, where people redirect them. True: the line is RAS's alone.
bool look_for_ras(const LogLine& line, RasBlocks& ras) {
  if (const auto* other = std::get_if<OtherLine>(&line.fact); other != nullptr && !other->nccl)
    return ras.add(other->text) && ras_part(trimmed(other->text)) != RasPart::foreign;
  if (const LineShape* version = line.shape("version"); version != nullptr && version->text("cuda").empty() &&
                                                        line.origin.host.empty() &&
                                                        !may_report_failure(line.origin.decoration))
    ras.add(fmt::format("NCCL version {} compiled with CUDA 0", version->text("nccl")));  // how an answer begins
  return false;
}

}  // namespace

DiagnoseInputs sort_inputs(std::span<const InputFile> files) {
  DiagnoseInputs inputs;
  std::string ras_before;
  for (const InputFile& given : files) {
    const InputFile file = plain_text(given, false);
    const Piece head = read_piece(file.opens, kHead);
    const auto other = [&](const std::string& what, bool is_evidence = true) {
      inputs.others.push_back({file.path, what, head.size, is_evidence});
    };
    const auto is = [&](std::string_view list) { return builtin_line_rules().has(list, head.text); };
    if (is("profiles")) {
      other("a trace of PyTorch's profiler, which `busbar workload import` reads", false);
    } else if (looks_like_torch_dump(head.text)) {
      inputs.logs.push_back(given);
    } else if (is("hang-reports") && head.size <= kMostFileBytes) {
      const std::string wrong = read_hang(file.opens, inputs);
      other(wrong.empty() ? "hang report" : wrong, wrong.empty());
    } else if (is("results")) {
      other("results, which `busbar report` reads", false);
    } else if (std::vector<std::string> answers;
               head.size <= kMostFileBytes && is("ras-files") && !mentions(head.text, "NCCL INFO") &&
               !mentions(head.text, "NCCL WARN") && !(answers = only_ras(file.opens)).empty()) {
      read_answers(answers, file.path.filename().string(), ras_before, inputs.ras);
      other("answer of NCCL's RAS service");
    } else if (std::optional<FlightState> flight; head.size <= kLargestFlight &&
                                                  mentions(head.text.substr(0, 64), std::string_view("\0", 1)) &&
                                                  (flight = read_flight(file.opens))) {
      inputs.flights.push_back(std::move(*flight));
      other("flight record");
    } else {
      inputs.logs.push_back(given);
    }
  }
  return inputs;
}

std::string jobs_text(const std::vector<FlightState>& flights) {
  constexpr double kSilent = 15;  // [s] several beats
  const std::int64_t now = std::time(nullptr);
  std::map<std::string, std::vector<const FlightState*>> jobs;
  for (const FlightState& f : flights) jobs[f.jobid].push_back(&f);
  std::multimap<std::int64_t, std::string, std::greater<>> lines;
  for (const auto& [jobid, records] : jobs) {
    const FlightState& first = *records.front();
    double beat_age_s = 1e9;
    std::map<std::string_view, int> states;
    for (const FlightState* f : records) {
      const double age_s = std::max(f->heartbeat_age_s, static_cast<double>(now - f->beat_unix_s));
      beat_age_s = std::min(beat_age_s, age_s);
      const bool gone = f->host == hostname() && ::kill(static_cast<pid_t>(f->pid), 0) != 0 && errno == ESRCH;
      const bool silent = gone || age_s > kSilent;
      ++states[f->ending != Ending::none ? name(f->ending) : silent ? "gone or stopped" : "running"];
    }
    std::string state;
    for (const auto& [word, count] : states) state += fmt::format("{}{} {}", state.empty() ? "" : ", ", count, word);
    const std::string began = format_duration(static_cast<double>(now - first.started_unix_s));
    lines.emplace(first.started_unix_s,
                  fmt::format("{:<24} {:>8} {:>9} {:>5}  {}: {}\n", printable(jobid), began,
                              format_duration(beat_age_s), first.nprocs, state, printable(first.command)));
  }
  std::string text = "# job                       began last beat ranks  records: command (times are ages)\n";
  for (const auto& [began, line] : lines) text += line;
  return text;
}

std::vector<FlightState> flights_of_job(std::vector<FlightState> flights, std::string_view jobid) {
  std::string wanted(jobid);
  if (wanted.empty() && !flights.empty()) {
    // The first by name of those that began in the same second.
    const auto newer = [](const FlightState& a, const FlightState& b) {
      return std::pair(a.started_unix_s, b.jobid) < std::pair(b.started_unix_s, a.jobid);
    };
    wanted = std::ranges::max(flights, newer).jobid;
  } else if (!wanted.empty() && !std::ranges::count(flights, wanted, &FlightState::jobid)) {
    throw_bad_config(
        fmt::format("no flight record of job {}; there are records of:\n{}", in_quotes(wanted), jobs_text(flights)));
  }
  std::erase_if(flights, [&](const FlightState& f) { return f.jobid != wanted; });
  return flights;
}

HangEvidence evidence_of_flights(std::vector<FlightState> flights) {
  HangEvidence evidence;
  evidence.occasion = HangEvidence::Occasion::files;
  evidence.reporter_host = hostname();
  evidence.reporter = "busbar diagnose on " + evidence.reporter_host;
  std::map<std::string, HostEvidence> by_host;
  constexpr int kMost = 1 << 22;
  for (FlightState& f : flights) {
    evidence.jobid = f.jobid;
    evidence.nprocs = std::max(evidence.nprocs, std::min(f.nprocs, kMost));
    evidence.limit_s = std::max(evidence.limit_s, f.limit_s);
    evidence.idle_s = by_host.empty() ? f.idle_s : std::min(evidence.idle_s, f.idle_s);
    HostEvidence& host = by_host[f.host];
    host.host = f.host;
    host.reached = true;
    RankEvidence& rank = host.ranks.emplace_back();
    if (f.host == evidence.reporter_host) rank.process = process_state(f);
    rank.flight = std::move(f);
  }
  for (auto& [name, host] : by_host) evidence.hosts.push_back(std::move(host));
  look_at_this_host(evidence);
  // As people number them: by their lowest ranks.
  std::ranges::sort(evidence.hosts, [](const HostEvidence& a, const HostEvidence& b) {
    return a.ranks.front().flight.rank < b.ranks.front().flight.rank;
  });
  return evidence;
}

ReadLogs read_logs(std::span<const InputFile> files, std::size_t unknown_lines) {
  ReadLogs logs;
  std::string ras_before;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const InputFile input = plain_text(files[i], true);
    LogFile& file = logs.files.emplace_back();
    if (!read_dump(input, i, logs.job, file)) {
      RasBlocks ras;
      StackDumps stacks;
      file = read_log_file(input.opens, [&](const LogLine& line, std::uint64_t number) {
        const auto* other = std::get_if<OtherLine>(&line.fact);
        if (look_for_ras(line, ras) || (other != nullptr && !other->nccl && stacks.add(other->text))) return;
        logs.job.add(line, i, number);
        if (other == nullptr || !other->nccl || other->chatter || logs.unknown.size() >= unknown_lines) return;
        logs.unknown.push_back(fmt::format("{}:{}: {}", input.path.string(), number,
                                           without_controls(other->text.substr(0, kLongestShown))));
      });
      file.stacks = stacks.take(input.path.filename().string());
      read_answers(ras.take(), "", ras_before, logs.ras);
    }
    file.path = input.path;
    if (!input.trouble.empty()) file.trouble = input.trouble;
  }
  return logs;
}

}  // namespace busbar
