#pragma once

#include "common/base/packed_fields.h"
#include "common/record/accept_result.h"
#include "common/record/history_run.h"

namespace busbar {

// The fields of records, named once: `visit(name, field)` for each. Writing and reading are two visitors, for JSON
// (json_fields.h) and for messages between processes (packed_fields.h), so that none can forget a field that another
// has. Only .cpp files include this.

BUSBAR_RECORD(Interval, low, high);

BUSBAR_RECORD(RankTime, rank, host, own_median_s, late_median_s, late_p99_s, last_share);

BUSBAR_RECORD(Quantile, q, value_s, interval_s);

void visit_fields(auto&& visit, Modes& m) {
  visit("low_s", m.low);
  visit("high_s", m.high);
  visit("share_low", m.share_low);
}

void visit_fields(auto&& visit, Outliers& o) {
  BUSBAR_FIELDS(visit, o, count, share_of_sum);
  visit("largest_s", o.largest);
}

void visit_fields(auto&& visit, CellStats& s) {
  visit("median_s", s.median_s);
  visit("mean_s", s.mean_s, 0.0);
  BUSBAR_FIELDS(visit, s, interval_s, relative_half_width, span_s, correlation_time_s, stop, quantiles, epoch_medians_s,
                samples, samples_per_epoch, calls_per_sample, warmup_calls, warmed_up, lag1, trend_p, modes, outliers,
                skew_median_s, skew_p99_s, clock_error_s, canary_spread, shared_cores);
  visit("ranks", s.ranks, std::vector<RankTime>{});
}

void visit_fields(auto&& visit, CellIdentity& c) {
  visit("cell", c.cell, "");
  visit("stage", c.stage, std::nullopt);
  BUSBAR_FIELDS(visit, c, scope, collective, dtype, op);
  visit("root", c.root, -1);
  visit("nbytes", c.nbytes);
  visit("count", c.count, std::uint64_t{0});
  visit("in_place", c.in_place);
}

void visit_fields(auto&& visit, Cell& c) {
  visit_fields(visit, static_cast<CellIdentity&>(c));
  BUSBAR_FIELDS(visit, c, nranks, nhosts, repetition, median_s, interval_s, relative_half_width);
  visit("span_s", c.span_s, 0.0);
  visit("correlation_time_s", c.correlation_time_s, 0.0);
  visit("epoch_medians_s", c.epoch_medians_s);
  visit("calls_per_epoch", c.calls_per_epoch, 1);
  BUSBAR_FIELDS(visit, c, busbw, busbw_interval, wrong, wrong_texts, wrong_ranks, algorithm);
  visit("protocol", c.protocol, "");
  visit("channels", c.channels, "");
  visit("note", c.note, "");
  BUSBAR_FIELDS(visit, c, stop, samples, core_wait, shared_cores, ranks);
  visit("straggler_rank", c.straggler, std::nullopt);
}

void visit_fields(auto&& visit, SkippedCell& s) {
  BUSBAR_FIELDS(visit, s, cell, stage, scope, dtype, op);
  visit("root", s.root, -1);
  visit("reason", s.reason);
}

BUSBAR_RECORD(StageFailure, stage, cell, verdict, text, hosts, ranks, exit_code);

BUSBAR_RECORD(CriterionResult, criterion, outcome, stage, cell, scope, nbytes, in_place, found, wanted, wanted_busbw,
              source, reason, hosts);

BUSBAR_RECORD(AcceptResult::Host, name, ranks, device);

BUSBAR_RECORD(AcceptResult::Init, nranks, create_s, first_op_s);

BUSBAR_RECORD(DoctorRow, check, subject, outcome, value, reason, remedy, must_agree, if_differs, ranks);

BUSBAR_RECORD(CounterReading, name, value);

BUSBAR_RECORD(NodeReport, host, ranks, time, time_s, rows, counters);

void visit_fields(auto&& visit, Culprit& c) {
  BUSBAR_FIELDS(visit, c, what, units, outcome, side, rail, slow_rails, intermittent, slow_partners, partners,
                failed_confirmations, confirmations, ratio, ratio_error, alone_ratio, over_time);
  visit("looks", c.looks, 0);
  visit("looks_slow", c.looks_slow, 0);
}

void visit_fields(auto&& visit, LocateVerdict& f) {
  BUSBAR_FIELDS(visit, f, outcome, reason, rounds, calibration_rounds, alone_rounds);
  visit("later_rounds", f.later_rounds, 0);
  BUSBAR_FIELDS(visit, f, noise, threshold, median_bandwidth, slow_share, expected_false, culprits);
}

BUSBAR_RECORD(PairCell, a, b, bandwidth, measurements, one_way);

BUSBAR_RECORD(AcceptResult::Located::SlowRank, rank, host, outcome, text);

void visit_fields(auto&& visit, AcceptResult::Located& l) {
  BUSBAR_FIELDS(visit, l, unit, units, finding, matrix, slow_ranks, notes, looks, failed, unclear);
  visit("later_s", l.later_s, 0.0);
}

/// All fields except the envelope, the plan, kept as its text, and doctor's reports, which have their own format.
void visit_fields(auto&& visit, AcceptResult& r) {
  BUSBAR_FIELDS(visit, r, end_time, elapsed_s, outcome, criteria, launch, backend, library, platform, network,
                environment, hosts);
  visit("inits", r.inits, std::vector<AcceptResult::Init>{});
  BUSBAR_FIELDS(visit, r, excluded_hosts, remarks, failures, counters_read, counters, done, skipped, located, cells);
  visit("next", r.next, "");
}

/// All fields except the id, which the history assigns.
void visit_fields(auto&& visit, HistoryRun& r) {
  visit("launch_uuid", r.uuid);
  BUSBAR_FIELDS(visit, r, time, kind, title, command, version, backend, library, platform, estimand, hosts, nranks,
                environment, outcome, exit_code, cells, criteria);
}

}  // namespace busbar
