#pragma once

#include "common/record/accept_result.h"
#include "common/record/history_run.h"

namespace busbar {

// The fields of records, named once: `visit(name, field)` for each. What writes and what reads are two visitors, of
// JSON (json_fields.h) and of what travels between processes (packed_fields.h), so that none can forget a field that
// another has. Included by .cpp files alone.

constexpr const auto& words_of(StopReason) { return kStopWords; }
constexpr const auto& words_of(UnitKind) { return kUnitWords; }
constexpr const auto& words_of(Stage) { return kStageWords; }
constexpr const auto& words_of(Criterion) { return kCriterionWords; }
constexpr const auto& words_of(Outcome) { return kOutcomeWords; }
constexpr const auto& words_of(Culprit::What) { return kCulpritWords; }
constexpr const auto& words_of(Culprit::Side) { return kSideWords; }

void visit_fields(auto&& visit, Interval& i) {
  visit("low", i.low);
  visit("high", i.high);
}

void visit_fields(auto&& visit, RankTime& r) {
  visit("rank", r.rank);
  visit("host", r.host);
  visit("own_median_s", r.own_median_s);
  visit("late_median_s", r.late_median_s);
  visit("late_p99_s", r.late_p99_s);
  visit("last_share", r.last_share);
}

void visit_fields(auto&& visit, Quantile& q) {
  visit("q", q.q);
  visit("value_s", q.value_s);
  visit("interval_s", q.interval_s);
}

void visit_fields(auto&& visit, Modes& m) {
  visit("low_s", m.low);
  visit("high_s", m.high);
  visit("share_low", m.share_low);
}

void visit_fields(auto&& visit, Outliers& o) {
  visit("count", o.count);
  visit("share_of_sum", o.share_of_sum);
  visit("largest_s", o.largest);
}

void visit_fields(auto&& visit, CellStats& s) {
  visit("median_s", s.median_s);
  visit("interval_s", s.interval_s);
  visit("relative_half_width", s.relative_half_width);
  visit("span_s", s.span_s);
  visit("correlation_time_s", s.correlation_time_s);
  visit("stop", s.stop);
  visit("quantiles", s.quantiles);
  visit("epoch_medians_s", s.epoch_medians_s);
  visit("samples", s.samples);
  visit("samples_per_epoch", s.samples_per_epoch);
  visit("calls_per_sample", s.calls_per_sample);
  visit("warmup_calls", s.warmup_calls);
  visit("warmed_up", s.warmed_up);
  visit("lag1", s.lag1);
  visit("trend_p", s.trend_p);
  visit("modes", s.modes);
  visit("outliers", s.outliers);
  visit("skew_median_s", s.skew_median_s);
  visit("skew_p99_s", s.skew_p99_s);
  visit("clock_error_s", s.clock_error_s);
  visit("canary_spread", s.canary_spread);
  visit("shared_cores", s.shared_cores);
  visit("ranks", s.ranks, std::vector<RankTime>{});
}

void visit_fields(auto&& visit, CellIdentity& c) {
  visit("cell", c.cell, "");
  visit("stage", c.stage, std::nullopt);
  visit("scope", c.scope);
  visit("collective", c.collective);
  visit("dtype", c.dtype);
  visit("op", c.op);
  visit("root", c.root, -1);
  visit("nbytes", c.nbytes);
  visit("count", c.count, std::uint64_t{0});
  visit("in_place", c.in_place);
}

void visit_fields(auto&& visit, Cell& c) {
  visit_fields(visit, static_cast<CellIdentity&>(c));
  visit("nranks", c.nranks);
  visit("nhosts", c.nhosts);
  visit("repetition", c.repetition);
  visit("median_s", c.median_s);
  visit("interval_s", c.interval_s);
  visit("relative_half_width", c.relative_half_width);
  visit("span_s", c.span_s, 0.0);
  visit("correlation_time_s", c.correlation_time_s, 0.0);
  visit("epoch_medians_s", c.epoch_medians_s);
  visit("calls_per_epoch", c.calls_per_epoch, 1);
  visit("busbw", c.busbw);
  visit("busbw_interval", c.busbw_interval);
  visit("wrong", c.wrong);
  visit("wrong_texts", c.wrong_texts);
  visit("wrong_ranks", c.wrong_ranks);
  visit("algorithm", c.algorithm);
  visit("protocol", c.protocol, "");
  visit("channels", c.channels, "");
  visit("note", c.note, "");
  visit("stop", c.stop);
  visit("samples", c.samples);
  visit("core_wait", c.core_wait);
  visit("shared_cores", c.shared_cores);
  visit("ranks", c.ranks);
  visit("straggler_rank", c.straggler, std::nullopt);
}

void visit_fields(auto&& visit, SkippedCell& s) {
  visit("cell", s.cell);
  visit("stage", s.stage);
  visit("scope", s.scope);
  visit("dtype", s.dtype);
  visit("op", s.op);
  visit("root", s.root, -1);
  visit("reason", s.reason);
}

void visit_fields(auto&& visit, StageFailure& f) {
  visit("stage", f.stage);
  visit("cell", f.cell);
  visit("verdict", f.verdict);
  visit("text", f.text);
  visit("hosts", f.hosts);
  visit("ranks", f.ranks);
  visit("exit_code", f.exit_code);
}

void visit_fields(auto&& visit, CriterionResult& c) {
  visit("criterion", c.criterion);
  visit("outcome", c.outcome);
  visit("stage", c.stage);
  visit("cell", c.cell);
  visit("scope", c.scope);
  visit("nbytes", c.nbytes);
  visit("in_place", c.in_place);
  visit("found", c.found);
  visit("wanted", c.wanted);
  visit("wanted_busbw", c.wanted_busbw);
  visit("source", c.source);
  visit("reason", c.reason);
  visit("hosts", c.hosts);
}

void visit_fields(auto&& visit, AcceptResult::Host& h) {
  visit("name", h.name);
  visit("ranks", h.ranks);
  visit("device", h.device);
}

void visit_fields(auto&& visit, AcceptResult::Init& i) {
  visit("nranks", i.nranks);
  visit("create_s", i.create_s);
  visit("first_op_s", i.first_op_s);
}

void visit_fields(auto&& visit, DoctorRow& r) {
  visit("check", r.check);
  visit("subject", r.subject);
  visit("outcome", r.outcome);
  visit("value", r.value);
  visit("reason", r.reason);
  visit("remedy", r.remedy);
  visit("must_agree", r.must_agree);
  visit("if_differs", r.if_differs);
  visit("ranks", r.ranks);
}

void visit_fields(auto&& visit, CounterReading& c) {
  visit("name", c.name);
  visit("value", c.value);
}

void visit_fields(auto&& visit, NodeReport& n) {
  visit("host", n.host);
  visit("ranks", n.ranks);
  visit("time", n.time);
  visit("time_s", n.time_s);
  visit("rows", n.rows);
  visit("counters", n.counters);
}

void visit_fields(auto&& visit, Culprit& c) {
  visit("what", c.what);
  visit("units", c.units);
  visit("outcome", c.outcome);
  visit("side", c.side);
  visit("rail", c.rail);
  visit("slow_rails", c.slow_rails);
  visit("intermittent", c.intermittent);
  visit("slow_partners", c.slow_partners);
  visit("partners", c.partners);
  visit("failed_confirmations", c.failed_confirmations);
  visit("confirmations", c.confirmations);
  visit("ratio", c.ratio);
  visit("ratio_error", c.ratio_error);
  visit("alone_ratio", c.alone_ratio);
  visit("over_time", c.over_time);
  visit("looks", c.looks, 0);
  visit("looks_slow", c.looks_slow, 0);
}

void visit_fields(auto&& visit, LocateVerdict& f) {
  visit("outcome", f.outcome);
  visit("reason", f.reason);
  visit("rounds", f.rounds);
  visit("calibration_rounds", f.calibration_rounds);
  visit("alone_rounds", f.alone_rounds);
  visit("later_rounds", f.later_rounds, 0);
  visit("noise", f.noise);
  visit("threshold", f.threshold);
  visit("median_bandwidth", f.median_bandwidth);
  visit("slow_share", f.slow_share);
  visit("expected_false", f.expected_false);
  visit("culprits", f.culprits);
}

void visit_fields(auto&& visit, PairCell& c) {
  visit("a", c.a);
  visit("b", c.b);
  visit("bandwidth", c.bandwidth);
  visit("measurements", c.measurements);
  visit("one_way", c.one_way);
}

void visit_fields(auto&& visit, AcceptResult::Located::SlowRank& r) {
  visit("rank", r.rank);
  visit("host", r.host);
  visit("outcome", r.outcome);
  visit("text", r.text);
}

void visit_fields(auto&& visit, AcceptResult::Located& l) {
  visit("unit", l.unit);
  visit("units", l.units);
  visit("finding", l.finding);
  visit("matrix", l.matrix);
  visit("slow_ranks", l.slow_ranks);
  visit("notes", l.notes);
  visit("looks", l.looks);
  visit("failed", l.failed);
  visit("unclear", l.unclear);
  visit("later_s", l.later_s, 0.0);
}

/// All but the envelope, the plan, which is kept as its text, and doctor's reports, which have a format of their own.
void visit_fields(auto&& visit, AcceptResult& r) {
  visit("end_time", r.end_time);
  visit("elapsed_s", r.elapsed_s);
  visit("outcome", r.outcome);
  visit("criteria", r.criteria);
  visit("launch", r.launch);
  visit("backend", r.backend);
  visit("library", r.library);
  visit("platform", r.platform);
  visit("network", r.network);
  visit("environment", r.environment);
  visit("hosts", r.hosts);
  visit("inits", r.inits, std::vector<AcceptResult::Init>{});
  visit("excluded_hosts", r.excluded_hosts);
  visit("remarks", r.remarks);
  visit("failures", r.failures);
  visit("counters_read", r.counters_read);
  visit("counters", r.counters);
  visit("done", r.done);
  visit("skipped", r.skipped);
  visit("located", r.located);
  visit("cells", r.cells);
}

/// All but the id, which the history gives.
void visit_fields(auto&& visit, HistoryRun& r) {
  visit("launch_uuid", r.uuid);
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

}  // namespace busbar
