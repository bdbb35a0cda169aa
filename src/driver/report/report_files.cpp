#include "driver/report/report_files.h"

#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/units.h"
#include "common/record/accept_json.h"
#include "common/record/doctor_json.h"
#include "common/record/envelope.h"
#include "common/record/json_values.h"
#include "common/record/read_run.h"
#include "driver/doctor/join_nodes.h"
#include "driver/report/report_changes.h"
#include "driver/report/report_of_accept.h"
#include "driver/report/report_of_json.h"
#include "driver/report/report_of_run.h"
#include "driver/report/report_parts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace busbar {
namespace {

enum class Kind { run, compare, merge, accept, locate, doctor };

[[noreturn]] void fail_unknown(const std::string& what) {
  throw Error(ExitCode::bad_config,
              fmt::format("{}; a report is made of JSON files that busbar wrote: a benchmark's -J (all_reduce_perf, "
                          "...), or that of `busbar accept`, `compare`, `doctor`, `locate`, `merge`",
                          what));
}

Kind kind_of(const ResultFile& file) {
  Json document;
  try {
    document = parse_json(file.text, file.name);
  } catch (const Error& error) {
    fail_unknown(error.what());
  }
  const auto it = [&](const char* what) { return fmt::format("{}: {}", file.name, what); };
  if (!document.is_object()) fail_unknown(it("is no JSON object"));
  const std::string what = document_of(document);
  if (what == "accept") return Kind::accept;
  if (what == "merge") return Kind::merge;
  if (what == "compare") return Kind::compare;
  if (what == "locate") return Kind::locate;
  if (what == "doctor") return Kind::doctor;
  if (document.contains("results") && document.contains("busbar")) return Kind::run;
  if (document.contains("results")) fail_unknown(it("has results, but no `busbar` object, as nccl-tests' files"));
  fail_unknown(it("is JSON of another kind"));
}

/// The worst of doctor's findings for the verdict.
std::vector<std::string> doctor_lines(const DoctorFinding& finding) {
  constexpr std::size_t kMost = 6;
  std::vector<std::string> lines;
  for (const DoctorFinding::Unequal& u : finding.unequal) {
    if (lines.size() == kMost) break;
    std::string values;
    for (const auto& value : u.values) {
      values += fmt::format("{}{} on {}", values.empty() ? "" : ", ", value.value, compress_hosts(value.places));
    }
    lines.push_back(fmt::format("{} {}{}{}: {}", busbar::name(u.outcome), u.check, u.subject.empty() ? "" : " ",
                                u.subject, values));
  }
  for (const DoctorFinding::Line& line : finding.lines) {
    if (lines.size() == kMost || line.row.outcome <= Outcome::pass) break;
    const DoctorRow& row = line.row;
    lines.push_back(fmt::format("{} {}{}{} on {}: {}{}{}", busbar::name(row.outcome), row.check,
                                row.subject.empty() ? "" : " ", row.subject, compress_hosts(line.hosts), row.value,
                                row.value.empty() || row.reason.empty() ? "" : ", ", row.reason));
  }
  return lines;
}

void add_doctor(ReportData& data, const ResultFile& file, const std::string& source) {
  const auto nodes = read_doctor_json(file.text, file.name);
  const DoctorFinding finding = join_nodes(nodes);
  const std::string looked = fmt::format("{} node{}", finding.nodes, finding.nodes == 1 ? "" : "s");
  if (data.title.empty()) data.title = "Doctor on " + looked;
  const auto bad = std::count_if(finding.lines.begin(), finding.lines.end(),
                                 [](const auto& line) { return line.row.outcome > Outcome::pass; }) +
                   static_cast<std::ptrdiff_t>(finding.unequal.size());
  add_verdict(data, finding.outcome, fmt::format("{} looked at: {} checks OK, {} not", looked, finding.ok, bad),
              doctor_lines(finding), source);
  data.judged.push_back(doctor_table(finding, titled(source, "Doctor")));
  ReportRun run;
  run.title = file.name;
  std::vector<std::string> hosts, times;
  for (const NodeReport& node : nodes) {
    hosts.push_back(node.host);
    if (!node.time.empty()) times.push_back(node.time);
  }
  add_fact(run, "what", std::string("busbar doctor"));
  add_fact(run, "hosts", compress_hosts(hosts));
  if (!times.empty()) add_fact(run, "first", *std::min_element(times.begin(), times.end()));
  if (!times.empty()) add_fact(run, "last", *std::max_element(times.begin(), times.end()));
  data.runs.push_back(std::move(run));
}

void add_file(ReportData& data, const ResultFile& file, const std::string& source) {
  switch (kind_of(file)) {
    case Kind::run:
      return add_run(data, read_run(file.text, file.name), source);
    case Kind::compare:
      return add_comparisons(data, file.text, file.name, source);
    case Kind::merge:
      return add_merged(data, file.text, file.name, source);
    case Kind::locate:
      return add_locate(data, file.text, file.name, source);
    case Kind::accept:
      return add_accept(data, read_accept_json(file.text, file.name), source);
    case Kind::doctor:
      return add_doctor(data, file, source);
  }
}

std::string last_part(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

/// The files' names without folders; with them where they would not tell the files apart.
std::vector<std::string> short_names(const std::vector<ResultFile>& files) {
  std::set<std::string> different;
  for (const ResultFile& file : files) different.insert(last_part(file.name));
  std::vector<std::string> names;
  for (const ResultFile& file : files) {
    names.push_back(files.size() == 1 ? "" : different.size() == files.size() ? last_part(file.name) : file.name);
  }
  return names;
}

/// Cells in which a rank stands out come first.
void order_skews(std::vector<ReportSkew>& skews) {
  const auto spread = [](const ReportSkew& skew) {
    double most = 0, least = 1e300;
    for (const ReportSkew::Rank& r : skew.ranks) {
      const double value = r.late_s.value_or(r.own_s);
      most = std::max(most, value);
      least = std::min(least, value);
    }
    return skew.straggler ? most - least + 1e6 : most - least;
  };
  std::stable_sort(skews.begin(), skews.end(), [&](const auto& a, const auto& b) { return spread(a) > spread(b); });
}

}  // namespace

ReportData read_report_files(const std::vector<ResultFile>& files) {
  ReportData data;
  const auto names = short_names(files);
  for (std::size_t i = 0; i < files.size(); ++i) add_file(data, files[i], names[i]);
  if (files.size() > 1) {
    data.title.clear();
    for (const std::string& name : names) data.title += (data.title.empty() ? "" : " and ") + name;
    add_changes(data);
  }
  order_skews(data.skews);
  return data;
}

}  // namespace busbar
