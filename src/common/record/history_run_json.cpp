#include "common/base/error.h"
#include "common/base/units.h"
#include "common/record/accept_fields.h"
#include "common/record/history_run.h"
#include "common/record/json_fields.h"
#include "common/record/parse_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace busbar {

static constexpr std::string_view kKind = "history-run";

void visit_fields(auto&& visit, HistoryCell& c) {
  visit("stage", c.stage);
  visit("cell", c.cell);
  visit("scope", c.scope);
  visit("collective", c.collective);
  visit("dtype", c.dtype);
  visit("op", c.op);
  visit("root", c.root);
  visit("nbytes", c.nbytes);
  visit("in_place", c.in_place);
  visit("algorithm", c.algorithm);
  visit("median_s", c.median_s);
  visit("interval_s", c.interval_s);
  visit("busbw", c.busbw);
  visit("wrong", c.wrong);
  visit("epochs_s", c.epochs_s);
}

/// All but the id, which the history gives.
void visit_fields(auto&& visit, HistoryRun& r) {
  visit("uuid", r.uuid);
  visit("time", r.time);
  visit("kind", r.kind);
  visit("title", r.title);
  visit("command", r.command);
  visit("version", r.version);
  visit("backend", r.backend);
  visit("library", r.library);
  visit("platform", r.platform);
  visit("estimand", r.estimand);
  visit("hosts", r.hosts);
  visit("nranks", r.nranks);
  visit("environment", r.environment);
  visit("outcome", r.outcome);
  visit("exit_code", r.exit_code);
  visit("cells", r.cells);
  visit("criteria", r.criteria);
}

std::string history_run_json(const HistoryRun& run) {
  Json json;
  json["document"] = kKind;
  json["schema"] = 1;
  json["run"] = fields_json(run);
  return dump_json(json);
}

HistoryRun read_history_run_json(std::string_view text, const std::string& name) {
  try {
    const Json document = parse_json(text, name);
    std::string kind;
    read_field(member(document, "document"), "document", kind);
    if (kind != kKind) fail_reading(fmt::format("'document' is not '{}'", kKind));
    HistoryRun run;
    read_field(member(document, "run"), "run", run);
    return run;
  } catch (const Error& error) {
    fail_reading(fmt::format("{} is not a run for a history: {}", name, error.what()));
  }
}

}  // namespace busbar
