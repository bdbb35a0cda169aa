#include "common/base/text.h"
#include "common/base/units.h"
#include "driver/report/report_html.h"
#include "driver/workload/workload_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {
namespace {

std::string percent(double part_s, double whole_s) {
  return whole_s > 0 ? fmt::format("{:.1f} %", 100 * part_s / whole_s) : "";
}

ReportTable steps_table(const Workload& job) {
  ReportTable table{.title = "Steps",
                    .caption =
                        "Shares of a step's time. Exposed: communication next to which nothing computes. Computing, "
                        "exposed, copying and "
                        "idle add up to the step.",
                    .columns = {"rank", "step", "time", "computing", "overlapped", "exposed", "copying", "idle",
                                "waits for input", "calls", "bytes", ""}};
  for (const WorkloadStep& s : job.steps) {
    const auto part = [&](double part_s) { return s.on_gpu ? percent(part_s, s.time_s) : std::string(); };
    table.rows.push_back(
        {{},
         {s.rank ? std::to_string(*s.rank) : "", s.name, s.time_s > 0 ? time_words(s.time_s) : "", part(s.computing_s),
          part(s.overlapped_s), part(s.exposed_s), part(s.copying_s), part(s.idle_s), s.input_s ? part(*s.input_s) : "",
          std::to_string(s.calls), format_bytes(s.nbytes), s.stands_out ? "stands out" : ""}});
  }
  return table;
}

ReportTable calls_table(const Workload& job) {
  ReportTable table{.title = "Calls",
                    .caption =
                        "Those exposed longest first; without GPU times those of most bytes. The bandwidths follow "
                        "from the shortest of a "
                        "call's ranks, which arrived last, or from the shortest call if there is one rank.",
                    .columns = {"call", "size [B]", "type", "group", "ranks of the group", "calls", "per step",
                                "mean time", "exposed", "algbw GB/s", "busbw GB/s", "made by"}};
  for (const WorkloadOperation& o : job.operations) {
    const auto nbytes = call_bytes(o);
    const auto group = std::ranges::find(job.groups, o.group, &WorkloadGroup::name);
    table.rows.push_back(
        {{},
         {std::string(name(o.call)),
          nbytes     ? std::to_string(*nbytes)
          : o.varies ? "varies"
                     : "unknown",
          o.dtype, o.group, group != job.groups.end() && group->size ? std::to_string(*group->size) : "",
          std::to_string(o.calls),
          !o.per_step                             ? ""
          : o.per_step->least == o.per_step->most ? std::to_string(o.per_step->most)
                                                  : fmt::format("{} to {}", o.per_step->least, o.per_step->most),
          o.times ? time_words(o.times->mean_s) : "", o.times ? time_words(o.times->exposed_s) : "",
          o.times && o.times->algbw ? three_digits(*o.times->algbw) : "",
          o.times && o.times->busbw ? three_digits(*o.times->busbw) : "", o.via}});
  }
  return table;
}

ReportTable late_table(const Workload& job) {
  ReportTable table{.title = "Late ranks",
                    .caption = "The rank that waits least in a collective came last. Wait: of each other rank.",
                    .columns = {"rank", "was last", "of calls", "mean wait", "wait per step"}};
  for (const LateRank& late : job.late) {
    if (late.last == 0) continue;
    table.rows.push_back({{},
                          {std::to_string(late.rank), std::to_string(late.last), std::to_string(late.of_calls),
                           time_words(late.wait_s), late.per_step_s > 0 ? time_words(late.per_step_s) : ""}});
  }
  return table;
}

ReportLanes picture(const std::vector<StepLanes>& lanes) {
  ReportLanes picture{
      .title = "One step",
      .caption =
          fmt::format("{}: what each rank's GPU does. Ranks begin at their own step's beginning: their clocks differ.",
                      lanes.front().step),
      .kinds = {{"computing", "lane-computing"},
                {"communicating, overlapped", "lane-overlapped"},
                {"communicating, exposed", "lane-exposed"}},
      .rows = {}};
  const auto intervals = [](const std::vector<StepLanes::Segment>& segments) {
    std::vector<Interval> list;
    for (const StepLanes::Segment& segment : segments) list.push_back({segment.begin_s, segment.end_s});
    return list;
  };
  for (const StepLanes& lane : lanes) {
    picture.time_s = std::max(picture.time_s, lane.time_s);
    picture.rows.push_back({fmt::format("rank {}", lane.rank), {intervals(lane.computing), {}, {}}});
    picture.rows.push_back({"", {{}, intervals(lane.communicating), intervals(lane.exposed)}});
  }
  return picture;
}

}  // namespace

std::string workload_html(const Workload& job, const std::vector<StepLanes>& lanes, const std::string& title) {
  ReportData data;
  data.title = title.empty() ? "What the job communicates" : title;
  data.headline = job.verdict.sentence;
  for (const std::string& missing : job.verdict.missing) data.verdict.push_back("Not judged: " + missing);
  if (!job.verdict.next.empty()) data.next.push_back(job.verdict.next);
  if (!lanes.empty()) data.lanes.push_back(picture(lanes));
  for (ReportTable& table : std::vector{steps_table(job), calls_table(job), late_table(job)}) {
    if (!table.rows.empty()) data.judged.push_back(std::move(table));
  }
  ReportTable remarks{
      .title = "Remarks", .caption = "What was assumed, left out or not recorded.", .columns = {"remark"}};
  for (const std::string& remark : job.remarks) remarks.rows.push_back({{}, {remark}});
  for (const LeftOut& left : job.left_out)
    remarks.rows.push_back({{}, {fmt::format("left out: {} x {}", left.count, left.what)}});
  if (!remarks.rows.empty()) data.details.push_back(std::move(remarks));
  ReportRun run{"Traces", {}};
  for (const WorkloadSource& source : job.sources) {
    run.facts.push_back(
        {source.rank ? fmt::format("rank {}", *source.rank) : "rank unknown",
         {fmt::format("{}: {}, {}, {}{}", source.file, source.kind, format_bytes(source.nbytes),
                      counted(source.calls, "call"), source.version.empty() ? "" : ", library " + source.version)}});
  }
  data.runs.push_back(std::move(run));
  return report_html(data);
}

}  // namespace busbar
