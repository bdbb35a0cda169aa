#include "common/base/compress_list.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/evidence/hang_evidence.h"
#include "common/output/report_file.h"
#include "common/processes/session.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "driver/diagnose/diagnose_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace busbar {

// What JSON has of them.
BUSBAR_RECORD(Diagnosis::HostPair, from, to, via, connections);
void visit_fields(auto&& visit, Diagnosis::Lag& lag) {
  BUSBAR_FIELDS(visit, lag, rank, who, communicator, ordinal, op_count, last);
}
void visit_fields(auto&& visit, Diagnosis::WarningGroup& group) {
  BUSBAR_FIELDS(visit, group, shape, example, who, where, timestamp, times, victim);
}
void visit_fields(auto&& visit, LogFile& file) {
  const std::string path = file.path.string();
  visit("path", path);
  BUSBAR_FIELDS(visit, file, bytes, lines, nccl_lines, unknown_lines, trouble);
}

namespace {

constexpr std::size_t kMostRows = 10;    // of a table
constexpr std::size_t kWidestCell = 64;  // longer ones are cut, except in the last column

using Cells = std::vector<std::string>;

/// Rows under a title, the first of them the columns' names, columns aligned; after kMostRows only how many follow.
std::string table(std::string_view title, std::vector<Cells> rows) {
  if (rows.size() < 2) return "";
  const std::size_t more = rows.size() - std::min(rows.size(), kMostRows + 1);
  rows.resize(rows.size() - more);
  std::vector<std::size_t> widths(rows.front().size());
  for (Cells& row : rows) {
    for (std::size_t column = 0; column + 1 < row.size(); ++column) {
      std::string& cell = row[column];
      if (cell.size() > kWidestCell) cell = cell.substr(0, kWidestCell - 3) + "...";
      widths[column] = std::max(widths[column], cell.size());
    }
  }
  std::string text = fmt::format("\n{}\n", title);
  for (const Cells& row : rows) {
    std::string line = " ";
    for (std::size_t column = 0; column < row.size(); ++column)
      line += fmt::format(" {:<{}} ", row[column], widths[column]);
    text.append(line, 0, line.find_last_not_of(' ') + 1).append(1, '\n');
  }
  if (more > 0) text += fmt::format("  ... and {} more\n", more);
  return text;
}

/// The first of a list, a line each, and how many follow.
std::string first_lines(const std::vector<std::string>& list, std::size_t most, std::string_view before_number,
                        std::string_view behind_it) {
  std::string text;
  for (std::size_t i = 0; i < std::min(list.size(), most); ++i) text += fmt::format("  {}\n", list[i]);
  if (list.size() > most) text += fmt::format("  {}and {} more{}\n", before_number, list.size() - most, behind_it);
  return text;
}

std::string lines(std::string_view title, const std::vector<std::string>& list, std::size_t most = kMostRows) {
  return list.empty() ? "" : fmt::format("\n{}\n{}", title, first_lines(list, most, "... ", ""));
}

std::string ranks(const std::vector<int>& list) {
  if (list.empty()) return "-";
  std::vector<int> sorted = list;
  std::ranges::sort(sorted);
  return compress_ranks(sorted);
}

std::string communicators(const Diagnosis& diagnosis) {
  std::vector<Cells> rows{{"name", "nodes", "Init START", "complete", "not seen"}};
  std::vector<std::string> slow;
  bool heuristic = false;
  for (const Diagnosis::Init& init : diagnosis.communicators) {
    heuristic = heuristic || init.heuristic;
    rows.push_back({init.name + (init.heuristic ? " *" : ""), init.nnodes < 0 ? "?" : std::to_string(init.nnodes),
                    ranks(init.started), ranks(init.completed),
                    init.not_seen.empty() ? "-" : compress_ranks(init.not_seen)});
    slow.insert(slow.end(), init.slow_phases.begin(), init.slow_phases.end());
  }
  std::string text = table("Communicators (ranks whose logs show it)", std::move(rows));
  if (heuristic) text += "  * these logs have no commId: ranks were matched by size and order of creation\n";
  return text + lines("Slow phases of initialization", slow);
}

std::string calls(const Diagnosis& diagnosis) {
  std::vector<Cells> rows{{"who", "communicator", "calls", "opCount", "last call"}};
  for (const Diagnosis::Lag& lag : diagnosis.lags) {
    rows.push_back({lag.who, lag.communicator, std::to_string(lag.ordinal),
                    lag.recorded ? fmt::format("SeqNum {}", lag.op_count) : fmt::format("{:x}", lag.op_count),
                    lag.last});
  }
  return table("Last calls (the most behind first)", std::move(rows));
}

/// Facts of one key on one line; what only repeats other tables is left out.
std::string facts(const Diagnosis& diagnosis) {
  using Fact = std::pair<std::string, std::string>;
  std::size_t width = 0;
  for (const Fact& fact : diagnosis.facts) width = std::max(width, std::min(fact.first.size(), kWidestCell));
  const auto rows = mapped(grouped(diagnosis.facts, &Fact::first), [&](const auto& group) {
    return fmt::format("{:<{}}  {}", group.first, width, fmt::join(mapped(group.second, &Fact::second), ", "));
  });
  constexpr std::size_t kMostFacts = 60;
  return lines("Facts", rows, kMostFacts);
}

std::string transports(const Diagnosis& diagnosis) {
  std::vector<Diagnosis::HostPair> pairs = diagnosis.transports;
  std::ranges::stable_sort(pairs, std::greater<>(), &Diagnosis::HostPair::connections);
  std::vector<Cells> rows{{"from", "to", "connections", "via"}};
  for (const Diagnosis::HostPair& pair : pairs) {
    rows.push_back({pair.from, pair.to, std::to_string(pair.connections), pair.via});
  }
  return table("Transports (\"?\": a rank whose host is unknown)", std::move(rows));
}

std::string warnings(const Diagnosis& diagnosis) {
  std::vector<Cells> rows{{"times", "who", "", "time", "warning"}};
  for (const Diagnosis::WarningGroup& warning : diagnosis.warnings) {
    const char* kind = warning.harmless ? "harmless" : warning.victim ? "victim" : "";
    rows.push_back({std::to_string(warning.times), warning.who, kind, warning.timestamp, warning.example});
  }
  return table("Warnings (causes first)", std::move(rows));
}

/// Right after the verdict, which these files could not influence.
std::string unread(const Diagnosis& diagnosis) {
  std::vector<std::string> found;
  for (const LogFile& file : diagnosis.files) {
    if (file.trouble.empty()) continue;
    found.push_back(fmt::format("not read: {}: {}", in_quotes(file.path.string()), file.trouble));
  }
  return first_lines(found, 5, "... ", " that are not read");
}

/// files_text() lists the files by name, with those that are not logs.
std::string files(const Diagnosis& diagnosis) {
  if (diagnosis.files.empty()) return "";
  std::uint64_t all = 0, nccl = 0, unknown = 0;
  for (const LogFile& file : diagnosis.files) {
    all += file.lines;
    nccl += file.nccl_lines;
    unknown += file.unknown_lines;
  }
  return fmt::format("\nRead {}: {}, {} of NCCL, {} of them not understood\n", counted(diagnosis.files.size(), "file"),
                     counted(all, "line"), nccl, unknown);
}

/// The files that the claims are based on: others may hold more.
std::string files_text(const DiagnoseResult& result) {
  std::vector<std::string> read;
  for (const DiagnoseInputs::OtherFile& file : result.others) {
    read.push_back(fmt::format("{}: {}", in_quotes(file.path.string()), file.what));
  }
  if (result.logs) {
    for (const LogFile& file : result.logs->files) {
      const std::string unknown = fmt::format(", {} of them not understood", file.unknown_lines);
      read.push_back(fmt::format("{}: {}, {} of NCCL{}{}", in_quotes(file.path.string()), counted(file.lines, "line"),
                                 file.nccl_lines, file.unknown_lines > 0 ? unknown : "",
                                 file.trouble.empty() ? "" : "; " + file.trouble));
    }
  }
  return "\nFiles read\n" + first_lines(read, 16, "", ", all in --json");
}

Json communicators_json(const Diagnosis& diagnosis) {
  std::uint64_t room = kMostListedRanks;
  return json_list(diagnosis.communicators, [&](const Diagnosis::Init& init) -> Json {
    return {{"name", init.name},
            {"id", json_text_or_null(init.id)},
            {"heuristic", init.heuristic},
            {"child", init.child},
            {"nranks", init.nranks},
            {"nnodes", init.nnodes},
            {"started", init.started},
            {"completed", init.completed},
            {"not_seen", json_ranks(init.not_seen, room)},
            {"slow_phases", init.slow_phases}};
  });
}

/// null for what is not known.
Json with_nulls(Json list, const Json& unknown, std::initializer_list<const char*> keys) {
  for (Json& one : list) {
    for (const char* key : keys) one[key] = one[key] == unknown ? Json() : one[key];
  }
  return list;
}

Json diagnosis_document(const Diagnosis& diagnosis) {
  const auto fact = [](const auto& one) -> Json { return {{"key", one.first}, {"value", one.second}}; };
  Json document = fields_json<Finding>(diagnosis);
  // Hosts that a scheduler should leave out: a device or the host itself is at fault.
  std::vector<std::string> at_fault = diagnosis.hosts;
  std::erase_if(at_fault, [&](const std::string& host) {
    const std::size_t dot = host.find('.');
    const bool is_site = dot != kNotFound && std::ranges::none_of(host.substr(0, dot), is_digit);  // "huggingface.co"
    return is_site || diagnosis.verdict > Verdict::host_unreachable;
  });
  document.update({{"exclude", joined_words(at_fault, ",")},
                   {"communicators", communicators_json(diagnosis)},
                   {"lags", with_nulls(fields_json(diagnosis.lags), -1, {"rank"})},
                   {"divergences", diagnosis.divergences},
                   {"skews", diagnosis.skews},
                   {"facts", json_list(diagnosis.facts, fact)},
                   {"transports", fields_json(diagnosis.transports)},
                   {"algorithms", diagnosis.algorithms},
                   {"warnings", with_nulls(fields_json(diagnosis.warnings), "", {"where", "timestamp"})},
                   {"torch_ranks", diagnosis.torch_ranks},
                   {"files", with_nulls(fields_json(diagnosis.files), "", {"trouble"})}});
  return document;
}

/// The hang whose verdict is that of all; null if the logs decide it.
const JudgedHang* decisive_hang(const DiagnoseResult& result) {
  const Verdict verdict = verdict_of(result);
  if (result.logs && result.logs->verdict == verdict) return nullptr;
  const auto found =
      std::ranges::find_if(result.hangs, [&](const JudgedHang& h) { return h.finding.verdict == verdict; });
  return found != result.hangs.end() ? &*found : nullptr;
}

}  // namespace

std::string diagnosis_text(const Diagnosis& diagnosis) {
  const std::string text = fmt::format("VERDICT: {}: {}\n", name(diagnosis.verdict), diagnosis.sentence) +
                           unread(diagnosis) + first_lines(diagnosis.evidence, diagnosis.evidence.size(), "", "") +
                           lines("First differing calls", diagnosis.divergences) + communicators(diagnosis) +
                           calls(diagnosis) + warnings(diagnosis) +
                           lines("Not the same on all ranks", diagnosis.skews) + transports(diagnosis) +
                           lines("Algorithms", diagnosis.algorithms) + facts(diagnosis) + files(diagnosis) +
                           lines("Missing evidence", diagnosis.missing) + lines("Next", diagnosis.next);
  return without_controls(text, true);
}

Verdict verdict_of(const DiagnoseResult& result) {
  Verdict verdict = result.logs ? result.logs->verdict : result.hangs.front().finding.verdict;
  for (const JudgedHang& hang : result.hangs) verdict = std::min(verdict, hang.finding.verdict);
  return verdict;
}

std::string diagnose_text(const DiagnoseResult& result, bool unknown) {
  std::string text;
  const JudgedHang* first = decisive_hang(result);
  if (first != nullptr) text += hang_report(first->evidence, first->finding);
  if (result.logs) text += (text.empty() ? "" : "\n") + diagnosis_text(*result.logs);
  for (const JudgedHang& hang : result.hangs) {
    if (&hang != first) text += "\n" + hang_report(hang.evidence, hang.finding);
  }
  text += files_text(result);
  if (!unknown) return text;
  text += result.unknown.empty() ? "\nNCCL's lines were all understood\n"
                                 : fmt::format("\nnot understood ({} lines shown):\n", result.unknown.size());
  for (const std::string& line : result.unknown) text += "  " + line + "\n";
  return text;
}

std::string diagnose_json(const DiagnoseResult& result) {
  const JudgedHang* first = decisive_hang(result);
  Json document = envelope_json({"diagnosis", local_timestamp(), {hostname()}, own_command()});
  if (result.logs) document.update(diagnosis_document(*result.logs));
  if (first != nullptr) {
    if (result.logs) document["logs_verdict"] = document.value("verdict", "");
    document.update(fields_json<Finding>(first->finding));
  }
  if (!document.contains("files")) document["files"] = Json::array();
  document["exit_code"] = static_cast<int>(exit_code(verdict_of(result)));
  document["hangs"] =
      json_list(result.hangs, [](const JudgedHang& hang) { return hang_value(hang.evidence, hang.finding); });
  document["other_files"] = json_list(result.others, [](const DiagnoseInputs::OtherFile& file) -> Json {
    return {{"path", file.path.string()}, {"what", file.what}, {"bytes", file.bytes}};
  });
  if (!result.unknown.empty()) document["unknown"] = result.unknown;
  return dump_json(document) + "\n";
}

void write_diagnose_json(const std::string& path, const DiagnoseResult& result) {
  write_new_file(path, "--json", diagnose_json(result));
}

}  // namespace busbar
