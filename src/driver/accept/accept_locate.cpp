#include "driver/accept/accept_locate.h"

#include "common/backends/open_backend.h"
#include "driver/locate/locate_run.h"
#include "driver/locate/slow_ranks.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

namespace busbar {
namespace {

Config pairs_config(const AcceptJobContext& context) {
  Config config;
  for (const Setting& setting : context.options.line.settings) setting.option->set(config, setting.text);
  return config;
}

AcceptResult::Located located_of(LocateRun&& run) {
  AcceptResult::Located located = std::move(run.located);
  for (const SlowRank& slow : run.ranks.slow) {
    located.slow_ranks.push_back({slow.rank, slow.host, slow.outcome, describe(slow)});
  }
  for (std::string& why : run.ranks.skipped) located.notes.push_back(std::move(why));
  return located;
}

AcceptResult::Located skipped(std::string why) {
  AcceptResult::Located located;
  located.finding.outcome = Outcome::skip;
  located.finding.reason = std::move(why);
  return located;
}

}  // namespace

AcceptResult::Located locate_pairs(const AcceptJobContext& context) {
  Job& job = context.job;
  const Comm& world = job.world();
  const bool shared = world.max(std::int64_t{!job.oversubscribed().empty()}) > 0;
  if (on_one_host(world) && shared) {
    return skipped("one host, and more ranks than cores on it: the scheduler chooses who is slow");
  }
  job.begin(Phase::initialization, "pairs: opening the communicator");
  const Config config = pairs_config(context);
  const OpenedBackend opened = open_backend(config, world, world);
  const auto watched = job.watchdog().attach(*opened.backend);
  // The same on all processes: a finding without a search.
  if (const std::optional<std::string> why = why_no_search(*opened.backend)) return skipped(*why);
  LocateOptions options;
  if (config.seed != 0) options.search.seed = config.seed;
  return located_of(run_search(job, *opened.backend, config, options, nullptr));
}

}  // namespace busbar
