#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/record/accept_result.h"
#include "common/record/json_values.h"
#include "common/record/node_report.h"
#include "common/record/read_run.h"
#include "driver/command/subcommand.h"
#include "driver/doctor/join_nodes.h"
#include "driver/formats/result_formats.h"
#include "driver/report/report_html.h"
#include "driver/report/report_parts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace busbar {
namespace {

[[noreturn]] void fail_unknown(const std::string& what) {
  throw_bad_config(
      fmt::format("{}; a report is built from JSON files that busbar wrote: -J of a benchmark (all_reduce_perf, "
                  "...) or of a subcommand",
                  what));
}

void add_doctor(ReportData& data, const ResultFile& file, const JsonPlace& json, const std::string& source) {
  const auto nodes = read_doctor_json(file.text, file.name);
  const DoctorVerdict verdict = join_nodes(nodes);
  const AcceptResult result = result_of_doctor(nodes, verdict);
  const std::string looked = counted(verdict.nodes, "node");
  if (data.title.empty()) data.title = "Doctor on " + looked;
  add_verdict(data, verdict.outcome, fmt::format("{} checked: {}", looked, outcome_counts(result.criteria)),
              worst_lines(result.criteria, Outcome::warn), source);
  data.judged.push_back(doctor_table(verdict, titled(source, "Doctor")));
  data.runs.push_back(run_of_document(json, file.name));
}

void add_file(ReportData& data, const ResultFile& file, const std::string& source) {
  Json document;
  try {
    document = parse_json(file.text, file.name);
  } catch (const Error& error) {
    fail_unknown(error.what());
  }
  const auto it = [&](const char* what) { return fmt::format("{}: {}", file.name, what); };
  if (!document.is_object()) fail_unknown(it("is not a JSON object"));
  const std::string what = document_of(document, file.name);
  const JsonPlace json(document, "", file.name);
  if (what == "compare") return add_comparisons(data, json, file.name, source);
  if (what == "merge" || what == "repeat") return add_merged(data, json, file.name, source);
  if (what == "locate") return add_locate(data, json, file.name, source);
  if (what == "accept") return add_accept(data, read_accept_json(file.text, file.name), source);
  if (what == "doctor") return add_doctor(data, file, json, source);
  if (what == "hang") throw_bad_config(fmt::format("{}: this is `hang`, not a result{}", file.name, who_reads(what)));
  constexpr std::array<std::string_view, 6> kTables{"communicators", "diagnosis",      "fingerprint",
                                                    "history-runs",  "history-trends", "history-comparison"};
  if (contains(kTables, what)) return add_document(data, json, file.name, source);
  if (document.contains("results") && document.contains("busbar"))
    return add_run(data, run_of(document, file.name), source);
  if (document.contains("results")) fail_unknown(it("has results, but no `busbar` object, as nccl-tests' files"));
  fail_unknown(it("is JSON of another kind"));
}

/// How often which file of a pair was faster.
struct Count {
  bool disturbed = false;  ///< one of the files: nothing is claimed
  std::size_t faster = 0;
  std::size_t slower = 0;
  std::size_t equal = 0;    ///< the intervals overlap
  std::size_t unknown = 0;  ///< no intervals
};

/// What is equal in two files' lines of the same cells.
auto cells_of(const ReportSeries& s) {
  return std::tie(s.collective, s.type, s.placement, s.variant, s.scope, s.expected);
}

std::string verdict_of(const ReportPoint& a, const ReportPoint& b, Count& count) {
  if (!a.time_interval_s || !b.time_interval_s) {
    ++count.unknown;
    return "no intervals";
  }
  if (count.disturbed) return "disturbed";
  const bool faster = b.time_interval_s->high < a.time_interval_s->low;
  const bool slower = b.time_interval_s->low > a.time_interval_s->high;
  ++(faster ? count.faster : slower ? count.slower : count.equal);
  return faster ? "faster" : slower ? "slower" : "undecided";
}

void add_rows(ReportTable& table, const ReportSeries& first, const ReportSeries& other, Count& count) {
  std::string cell = first.collective;
  for (const std::string* part : {&first.type, &first.placement, &first.variant}) {
    if (!part->empty()) cell += ", " + *part;
  }
  std::map<std::uint64_t, const ReportPoint*> by_size;
  for (const ReportPoint& p : first.points) by_size.try_emplace(p.nbytes, &p);
  for (const ReportPoint& b : other.points) {
    const auto known = by_size.find(b.nbytes);
    if (known == by_size.end() || !known->second->time_s || !b.time_s) continue;
    const ReportPoint* const a = known->second;
    const auto busbw = [](const ReportPoint& p) { return p.busbw ? three_digits(*p.busbw) : ""; };
    const std::string verdict = verdict_of(*a, b, count);
    table.add({cell, format_bytes(b.nbytes), time_words(*a->time_s), time_words(*b.time_s), busbw(*a), busbw(b),
               fmt::format("{:+.1f} %", 100 * (*a->time_s / *b.time_s - 1)), verdict});
  }
}

std::string words(const Count& count, const std::string& other, const std::string& first) {
  if (count.disturbed) {
    return fmt::format(
        "{} against {}: no verdict, because at least one of them was disturbed while it was measured (below)", other,
        first);
  }
  if (count.faster + count.slower + count.equal == 0) {
    return fmt::format(
        "{} against {}: {} sizes without intervals, so no verdict (--stat gives them, and more time if "
        "it was too short)",
        other, first, count.unknown);
  }
  return fmt::format("{} against {}: {} slower, {} faster, {} undecided", other, first, counted(count.slower, "size"),
                     count.faster, count.equal + count.unknown);
}

std::string last_part(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

/// The files' names without folders; with them if they would not tell the files apart.
std::vector<std::string> short_names(const std::vector<ResultFile>& files) {
  std::set<std::string> different;
  for (const ResultFile& file : files) different.insert(last_part(file.name));
  std::vector<std::string> names;
  for (const ResultFile& file : files)
    names.push_back(files.size() == 1 ? "" : different.size() == files.size() ? last_part(file.name) : file.name);
  return names;
}

/// Cells in which a rank stands out come first.
void order_skews(std::vector<ReportSkew>& skews) {
  const auto spread = [](const ReportSkew& skew) {
    double most = 0, least = 1e300;
    for (const RankTime& r : skew.ranks) {
      const double value = r.late_median_s.value_or(r.own_median_s);
      most = std::max(most, value);
      least = std::min(least, value);
    }
    return skew.straggler ? most - least + 1e6 : most - least;
  };
  std::stable_sort(skews.begin(), skews.end(), [&](const auto& a, const auto& b) { return spread(a) > spread(b); });
}

struct ReportOptions {
  std::string output = "report.html";
  std::string title;
};

std::vector<OwnOption> own_options(ReportOptions& options) {
  return {{"output", "OUT.html",
           "the file to write, - for stdout (default: report.html); an existing file is kept, OUT.html.0 is written",
           into(options.output), 'o'},
          {"title", "TEXT", "the report's heading", into(options.title)}};
}

int report(const CommandLine& line, const ReportOptions& options) {
  refuse_shared_options(line, "report");
  if (line.words.empty()) throw_bad_config("report: name the result files; `busbar report --help` shows how");
  std::vector<ResultFile> files;
  for (const std::string& file : line.words) files.push_back({file, read_file(file, "the result file")});
  ReportData data = read_report_files(files);
  if (!options.title.empty()) data.title = options.title;
  const std::string written = write_new_file(options.output, "--output", report_html(data));
  if (!is_stdout(written)) write_stdout(fmt::format("wrote {}\n", written));
  return 0;
}

}  // namespace

void add_changes(ReportData& data) {
  std::vector<std::string> sources;
  for (const ReportSeries& s : data.series) add_once(sources, s.source);
  for (std::size_t i = 1; i < sources.size(); ++i) {
    ReportTable table;
    Count count{.disturbed = data.disturbed.contains(sources[0]) || data.disturbed.contains(sources[i])};
    table.title = fmt::format("{} against {}", sources[i], sources[0]);
    table.columns = {"cell", "size", "time before", "time after", "GB/s before", "GB/s after", "speed", "verdict"};
    for (const ReportSeries& other : data.series) {
      if (other.source != sources[i] || other.expected) continue;
      const auto first = std::find_if(data.series.begin(), data.series.end(), [&](const ReportSeries& s) {
        return s.source == sources[0] && cells_of(s) == cells_of(other);
      });
      if (first != data.series.end()) add_rows(table, *first, other, count);
    }
    if (table.rows.empty()) continue;
    table.caption =
        "Before is the first file. Slower or faster: the two intervals do not overlap, which chance alone does once in "
        "about 180 times. One launch of each says nothing about normal launch-to-launch variation; busbar merge and "
        "busbar history do.";
    const std::string said = words(count, sources[i], sources[0]);
    if (data.outcome || i > 1) {
      data.verdict.push_back(said);
    } else {  // nothing was judged: the comparison is the result
      data.verdict.insert(data.verdict.begin(), std::exchange(data.headline, said));
    }
    data.judged.push_back(std::move(table));
  }
}

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

int run_report(int argc, char** argv) {
  ReportOptions options;
  return run_alone(argc, argv, "report", own_options(options),
                   [&](const CommandLine& line) { return report(line, options); });
}

}  // namespace busbar
