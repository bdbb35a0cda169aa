#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "driver/report/report_html.h"
#include "driver/workload/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>

namespace busbar {
namespace {

std::string percent(double part_s, double whole_s) {
  return whole_s > 0 ? fmt::format("{:.1f}", 100 * part_s / whole_s) : "";
}

std::string micros(double time_s) { return fmt::format("{:.1f}", 1e6 * time_s); }

/// Nothing if it is not known.
std::string millis(double time_s) { return time_s > 0 ? fmt::format("{:.3f}", 1e3 * time_s) : ""; }

ReportTable steps_table(const Workload& job) {
  ReportTable table{.title = "Steps",
                    .caption =
                        "Shares of a step's time in %. Exposed: communication next to which nothing computes. "
                        "Computing, exposed, copying and idle add up to 100.",
                    .columns = {"rank", "step", "time [ms]", "computing", "communicating", "overlapped", "exposed",
                                "copying", "idle", "input", "calls", "bytes", ""}};
  if (std::ranges::none_of(job.steps, &WorkloadStep::on_gpu)) table.caption = "What each rank communicates in them.";
  for (const WorkloadStep& s : job.steps) {
    const auto part = [&](double part_s) { return s.on_gpu ? percent(part_s, s.time_s) : std::string(); };
    const bool communicates = s.on_gpu || s.communicating_s > 0;
    table.add({s.rank ? std::to_string(*s.rank) : "", s.name, millis(s.time_s), part(s.computing_s),
               communicates ? percent(s.communicating_s, s.time_s) : "", part(s.overlapped_s), part(s.exposed_s),
               part(s.copying_s), part(s.idle_s), s.input_s ? part(*s.input_s) : "", std::to_string(s.calls),
               std::to_string(s.nbytes), s.stands_out ? "stands out" : ""});
  }
  return table;
}

std::string group_kind(const WorkloadGroup& group) {
  if (group.name.starts_with("unnamed")) return group.name;
  const bool named =
      !group.description.empty() && group.description != "undefined" && group.description != "default_pg";
  return fmt::format("{}{}", named ? group.description : group.name,
                     group.size ? fmt::format(" ({})", counted(*group.size, "rank")) : "");
}

/// Calls of one rank in a step. `rank_steps`: of all ranks.
std::string per_step(const std::vector<const WorkloadOperation*>& alike, std::size_t rank_steps) {
  if (!alike.front()->per_step) return {};
  const auto [least, most] = *alike.front()->per_step;
  if (alike.size() == 1) return least == most ? std::to_string(most) : fmt::format("{} to {}", least, most);
  std::uint64_t calls = 0;
  for (const WorkloadOperation* o : alike) calls += o->calls - o->left_out;
  return fmt::format("{:.3g}", static_cast<double>(calls) / static_cast<double>(rank_steps));
}

/// Operations that differ only in which group of one kind makes them, or in the size of an alltoallv: a row.
void add_calls(ReportTable& table, const std::string& group, std::size_t rank_steps,
               const std::vector<const WorkloadOperation*>& alike) {
  const WorkloadOperation& first = *alike.front();
  std::set<std::string> groups;
  std::uint64_t calls = 0, least = UINT64_MAX, most = 0;
  double timed = 0, time_s = 0, exposed_s = 0, best_s = 0;
  for (const WorkloadOperation* o : alike) {
    groups.insert(o->group);
    calls += o->calls;
    least = std::min(least, o->size().value_or(least));
    most = std::max(most, o->size().value_or(most));
    if (!o->times) continue;
    const auto n = static_cast<double>(o->times->calls);
    timed += n;
    time_s += n * o->times->mean_s;
    exposed_s += n * o->times->exposed_s.value_or(0);
    best_s += n * o->times->from_last_s.value_or(o->times->least_s);
  }
  const auto mean = [&](double sum_s) { return timed > 0 ? micros(sum_s / timed) : std::string(); };
  const double algbw = least == most && best_s > 0 ? 1e-9 * static_cast<double>(most) / (best_s / timed) : 0;
  const double factor =
      first.times && first.times->busbw && first.times->algbw ? *first.times->busbw / *first.times->algbw : 0;
  const std::string size = first.varies    ? "varies"
                           : most < least  ? "unknown"
                           : least == most ? std::to_string(most)
                                           : fmt::format("{} to {}", least, most);
  table.add({std::string(name(first.call)), size, first.dtype, group,
             groups.size() > 1 ? std::to_string(groups.size()) : "", std::to_string(calls), per_step(alike, rank_steps),
             mean(time_s), first.times && first.times->exposed_s ? mean(exposed_s) : "", mean(best_s),
             algbw > 0 ? three_digits(algbw) : "", algbw * factor > 0 ? three_digits(algbw * factor) : "",
             first.via == "symm_mem" ? first.via : ""});
}

ReportTable calls_table(const Workload& job) {
  ReportTable table{.title = "Calls",
                    .caption =
                        "Those exposed longest first, else those of most bytes. Size: bytes of one rank, the larger of "
                        "what it sends and gets. Best: of the rank that arrived last, where several ranks "
                        "were traced, else the shortest call; algbw and busbw follow from it.",
                    .columns = {"call", "size", "type", "group", "groups", "calls", "per step", "mean [us]",
                                "exposed [us]", "best [us]", "algbw [GB/s]", "busbw [GB/s]", "by"}};
  std::map<std::string, std::string> kinds;
  for (const WorkloadGroup& group : job.groups) kinds[group.name] = group_kind(group);
  const auto kind = [&](const WorkloadOperation& o) {
    const std::uint64_t size = o.call == CommKind::alltoallv ? 0 : o.size().value_or(UINT64_MAX);
    return std::tuple(o.call, o.dtype, size, o.varies, kinds[o.group], o.via);
  };
  for (const auto& [key, alike] : grouped(job.operations, kind))
    add_calls(table, std::get<4>(key), job.steps.size(), alike);
  return table;
}

ReportTable late_table(const Workload& job) {
  ReportTable table{.title = "Late ranks",
                    .caption = "The rank that waits least in a collective came last. Wait: of each other rank.",
                    .columns = {"rank", "was last", "of calls", "mean wait [us]", "wait per step [ms]"}};
  for (const LateRank& late : job.late) {
    if (late.last == 0) continue;
    table.add({std::to_string(late.rank), std::to_string(late.last), std::to_string(late.of_calls), micros(late.wait_s),
               millis(late.per_step_s)});
  }
  return table;
}

/// A paragraph as `# ...` lines.
std::string comment(std::string_view paragraph) {
  std::string text = wrapped(without_controls(paragraph), 0, 0, kColumns - 4), lines;
  text.pop_back();
  for (const std::string_view line : split_text(text, '\n'))
    lines += fmt::format("{}{}\n", lines.empty() ? "# " : "#   ", line);
  return lines;
}

/// The table for a terminal: columns as wide as they need to be, those without any text left out.
std::string table_text(const ReportTable& table, std::size_t most) {
  std::vector<std::vector<std::string>> rows{table.columns};
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const ReportTable::Row& row : std::span(table.rows).first(std::min(most, table.rows.size()))) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string cell = printable(row.cells[c]);
      widths[c] = std::max({widths[c], cell.size(), cell.empty() ? 0 : table.columns[c].size()});
      cells.push_back(cell.empty() ? "-" : cell);
    }
  }
  std::string text = comment(fmt::format("{}. {}", table.title, table.caption));
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c)
      line += widths[c] > 0 ? fmt::format(" {:>{}}", row[c], widths[c]) : "";
    if (&row == rows.data()) line[0] = '#';
    text += line + "\n";
  }
  if (table.rows.size() > most)
    text += fmt::format("# ... and {}; --rows shows more\n", counted(table.rows.size() - most, "more row"));
  return text + "#\n";
}

std::string sums_text(const Workload& job) {
  std::string text;
  for (const auto& [via, operations] : grouped(job.operations, &WorkloadOperation::via)) {
    std::uint64_t calls = 0, nbytes = 0;
    for (const WorkloadOperation* o : operations) calls += o->calls, nbytes += o->nbytes;
    text += fmt::format("# by {}: {}, {} bytes, of all ranks in the traces\n", printable(via), counted(calls, "call"),
                        nbytes);
  }
  return text;
}

/// Steps, calls and late ranks, for the terminal and the page; those without rows are left out.
std::vector<ReportTable> tables_of(const Workload& job) {
  std::vector<ReportTable> tables{steps_table(job), calls_table(job), late_table(job)};
  std::erase_if(tables, [](const ReportTable& table) { return table.rows.empty(); });
  return tables;
}

}  // namespace

std::vector<std::string> workload_remarks(const Workload& job) {
  std::vector<std::string> remarks = job.remarks;
  for (const LeftOut& left : job.left_out) remarks.push_back(fmt::format("left out: {} x {}", left.count, left.what));
  return remarks;
}

std::string workload_text(const Workload& job, std::size_t most) {
  std::string text;
  const auto add = [&](const std::string& paragraph) { text += wrapped(without_controls(paragraph), 0, 2); };
  const std::size_t n = job.sources.size();
  const std::string first = job.sources.empty() ? "" : job.sources.front().kind;
  text += comment(fmt::format("{} of {}{}{}", counted(n, "rank"), n == 1 ? "one " : "", first, n == 1 ? "" : "s") +
                  (job.nranks ? fmt::format("; the job has {}", counted(*job.nranks, "rank")) : ""));
  std::map<std::string, std::size_t> how;
  for (const WorkloadSource& source : job.sources) ++how[source.steps.empty() ? "none found" : source.steps];
  for (const auto& [words, count] : how)
    text += comment(fmt::format("steps: {}{}", words, n > 1 ? fmt::format(" ({})", counted(count, "rank")) : ""));
  text += "\n";
  add(job.verdict.sentence);
  if (!job.verdict.next.empty()) add("Next: " + job.verdict.next);
  for (const std::string& missing : job.verdict.missing) add("Not judged: " + missing);
  text += "\n";
  for (const ReportTable& table : tables_of(job)) text += table_text(table, most);
  text += sums_text(job);
  for (const std::string& remark : workload_remarks(job)) text += comment(remark);
  return text;
}

std::string workload_html(const Workload& job, const std::vector<ReportLanes>& lanes, const std::string& title) {
  ReportData data;
  data.title = title.empty() ? "What the job communicates" : title;
  data.headline = job.verdict.sentence;
  for (const std::string& missing : job.verdict.missing) data.verdict.push_back("Not judged: " + missing);
  if (!job.verdict.next.empty()) data.next.push_back(job.verdict.next);
  data.lanes = lanes;
  data.judged = tables_of(job);
  ReportTable remarks{
      .title = "Remarks", .caption = "What was assumed, left out or not recorded.", .columns = {"remark"}};
  for (const std::string& remark : workload_remarks(job)) remarks.add({remark});
  if (!remarks.rows.empty()) data.details.push_back(std::move(remarks));
  ReportRun run{"Traces", {}};
  for (const WorkloadSource& s : job.sources) {
    run.facts.push_back({s.rank ? fmt::format("rank {}", *s.rank) : "rank unknown",
                         {fmt::format("{}: {}, {}, {}{}", s.file, s.kind, format_bytes(s.nbytes),
                                      counted(s.calls, "call"), s.version.empty() ? "" : ", library " + s.version)}});
  }
  data.runs.push_back(std::move(run));
  return report_html(data);
}

}  // namespace busbar
