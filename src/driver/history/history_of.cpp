#include "driver/history/history_of.h"

#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/output/format.h"
#include "common/record/reported_environment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <unordered_map>

namespace busbar {
namespace {

HistoryCell cell_of(const MeasuredCell& measured) {
  HistoryCell cell;
  cell.stage = name(measured.stage);
  cell.cell = measured.cell;
  cell.scope = measured.scope;
  cell.collective = measured.collective;
  cell.dtype = measured.dtype;
  cell.op = measured.op;
  cell.nbytes = measured.nbytes;
  cell.in_place = measured.in_place;
  cell.algorithm = measured.algorithm;
  cell.median_s = measured.median_s;
  cell.interval_s = measured.interval_s;
  cell.busbw = measured.busbw;
  cell.wrong = measured.wrong;
  cell.epochs_s = measured.epoch_medians_s;
  return cell;
}

}  // namespace

HistoryRun history_of_accept(const AcceptResult& result, std::string_view tool) {
  HistoryRun run;
  run.time = result.start_time;
  run.kind = tool;
  run.title = result.plan.title_or_file();
  run.command = joined_words(result.command);
  run.version = result.version;
  run.backend = result.backend;
  run.library = result.library;
  run.platform = result.platform;
  if (!result.cells.empty()) run.estimand = "accept";
  for (const AcceptResult::Host& host : result.hosts) {
    add_once(run.hosts, host.name);
    run.nranks += static_cast<int>(host.ranks.size());
  }
  run.environment = steady_environment(result.environment);
  run.outcome = result.outcome;
  std::unordered_map<std::string, std::size_t> index;
  for (const MeasuredCell& measured : result.cells) {
    HistoryCell cell = cell_of(measured);
    if (!is_kept(cell.median_s)) continue;
    if (cell.epochs_s.empty()) cell.epochs_s = {cell.median_s};
    const auto [at, fresh] = index.try_emplace(cell.key(), run.cells.size());
    if (fresh) {
      run.cells.push_back(std::move(cell));
    } else {
      add_again(run.cells[at->second], cell);
    }
  }
  run.criteria = result.criteria;
  return run;
}

}  // namespace busbar
