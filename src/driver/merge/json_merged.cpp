#include "common/base/lists.h"
#include "common/record/envelope.h"
#include "common/record/json_values.h"
#include "driver/merge/merged_runs.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace busbar {
namespace {

Json interval_json(const std::optional<Interval>& interval_s) {
  if (!interval_s) return nullptr;
  return Json::array({json_seconds(interval_s->low), json_seconds(interval_s->high)});
}

Json optional_time(const std::optional<double>& time_s) { return time_s ? json_seconds(*time_s) : Json(nullptr); }

Json launch_json(const RunFile& run) {
  return {{"file", run.name},
          {"launch_uuid", run.launch_uuid},
          {"start_time", json_text_or_null(run.start_time)},
          {"library", run.library},
          {"hosts", run.hosts},
          {"spin_median_s", optional_time(run.spin_s)},
          {"copy_median_s", optional_time(run.copy_s)},
          {"flags", run.flags}};
}

Json cell_json(const MergedCell& m) {
  const RunCell& c = m.cell;
  const LaunchesEstimate& e = m.estimate;
  const bool good = m.wrong == 0;
  return {{"size", c.nbytes},
          {"count", c.count},
          {"type", c.dtype},
          {"redop", c.redop},
          {"root", c.root},
          {"placement", c.in_place ? "in" : "out"},
          {"nwrong", m.wrong},
          {"launch_medians_s", json_seconds(m.launch_medians_s)},
          {"median_s", good ? json_seconds(e.median) : Json(nullptr)},
          {"interval_s", good ? interval_json(e.interval) : Json(nullptr)},
          {"few_launches", e.few},
          {"relative_sd_between", json_number(relative_sd(e.variance_between, e.median))},
          {"relative_sd_within", json_number(relative_sd(e.variance_within, e.median))},
          {"best_epochs_per_launch", m.best_epochs}};
}

}  // namespace

std::string merged_json(const MergedRuns& merged) {
  const RunFile& first = merged.runs.front();
  Json launches = Json::array(), cells = Json::array();
  for (const RunFile& run : merged.runs) launches.push_back(launch_json(run));
  for (const MergedCell& cell : merged.cells) cells.push_back(cell_json(cell));
  Envelope envelope{"merge", "", {}, own_command()};
  for (const RunFile& run : merged.runs) {
    for (const std::string& host : run.hosts) add_once(envelope.where, host);
    if (envelope.time.empty() || (!run.start_time.empty() && run.start_time < envelope.time))
      envelope.time = run.start_time;
  }
  Json document = envelope_json(envelope);
  document.update({{"collective", first.collective},
                   {"backend", first.backend},
                   {"nranks", first.nranks},
                   {"cadence", first.cadence},
                   {"estimand", first.estimand},
                   {"confidence", 0.95},
                   {"launches", launches},
                   {"warnings", merged.warnings},
                   {"cells", cells}});
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace busbar
