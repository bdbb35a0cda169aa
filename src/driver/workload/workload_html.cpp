#include "common/base/text.h"
#include "common/base/units.h"
#include "driver/report/report_html.h"
#include "driver/workload/workload_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace busbar {
namespace {

ReportLanes picture(const std::vector<StepLanes>& lanes) {
  ReportLanes picture{.title = "One step",
                      .caption = fmt::format("{}: what each rank's GPU does. Each rank begins at its own step's "
                                             "beginning, because clocks differ.",
                                             lanes.front().step),
                      .kinds = {{"computing", "lane-computing"},
                                {"communicating, overlapped", "lane-overlapped"},
                                {"communicating, exposed", "lane-exposed"}},
                      .rows = {}};
  for (const StepLanes& lane : lanes) {
    picture.time_s = std::max(picture.time_s, lane.time_s);
    picture.rows.push_back({fmt::format("rank {}", lane.rank), {lane.computing, {}, {}}});
    picture.rows.push_back({"", {{}, lane.communicating, lane.exposed}});
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
  data.judged = workload_tables(job);
  ReportTable remarks{
      .title = "Remarks", .caption = "What was assumed, left out or not recorded.", .columns = {"remark"}};
  for (const std::string& remark : workload_remarks(job)) remarks.rows.push_back({{}, {remark}});
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
