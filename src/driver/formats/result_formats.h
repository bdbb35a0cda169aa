#pragma once

#include "common/record/accept_result.h"
#include "common/record/node_report.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

// A result as files for other programs. `tool`: whose it is, "accept", "locate" or "doctor".

/// JUnit XML (the form that Jenkins, GitLab and the Ant task's schema read): a suite per stage with a test per
/// criterion, and last the suite "verdict" with one test, the outcome of the whole. FAIL is a failure, INCONCLUSIVE an
/// error (readers show skipped tests as fine, and what is not known must not pass), SKIP is skipped, WARN passes with
/// its words in system-out. Names hold no measured values, so that a server can follow a test from run to run. A result
/// without an end is an error of the verdict.
std::string junit_xml(const AcceptResult& result, std::string_view tool);

/// Text as XML content or attribute value in double quotes: markup escaped, control characters and what is not UTF-8
/// replaced by U+FFFD.
std::string xml_text(std::string_view text);

/// Cells and criteria as one table (RFC 4180, lines end with \n as the benchmarks' do): column `record` says which a
/// line is, what does not concern it is empty. Bandwidths are in 1e9 B/s.
std::string accept_csv(const AcceptResult& result);

/// A result for a ticket, GitHub's Markdown: the verdict, what is to blame, what ran, then tables of what did not pass
/// and of what was measured. Long tables end with how many lines were left out: a ticket takes some 60000 characters.
std::string markdown_text(const AcceptResult& result, std::string_view tool);

/// Untrusted text within a line or a table's field: what Markdown or HTML would take for markup is escaped, a line
/// break becomes a space.
std::string markdown_field(std::string_view text);

/// A result in Prometheus's text format 0.0.4, for node-exporter's textfile collector: gauges with HELP and TYPE, each
/// series once, no timestamps (the collector refuses files that have them).
/// `end_s`: when the run ended, in seconds since 1970. Every series carries the plan's title as label `plan`, so that
/// files of several plans can be in one folder.
std::string prometheus_text(const AcceptResult& result, std::string_view tool, std::int64_t end_s);

/// `{a="1",b="x\"y"}`, values escaped; empty for no labels.
std::string prometheus_labels(const std::vector<std::pair<std::string, std::string>>& labels);

/// Every host that a criterion, a failed launch or a counter blames, once, in the order found.
std::vector<std::string> blamed_hosts(const AcceptResult& result);

/// From start to end [s]; 0 if the result has no readable times.
double run_time_s(const AcceptResult& result);

/// What `doctor` found as a result whose criteria are its findings, for the files that accept writes too (--junit,
/// --csv, --markdown, --prometheus, --history). Times, command and library are the caller's to fill in.
AcceptResult result_of_doctor(const std::vector<NodeReport>& nodes, const DoctorVerdict& verdict);

/// The same for `locate`: a criterion per culprit, or one that says that none was found.
AcceptResult result_of_locate(const AcceptResult::Located& located);

}  // namespace busbar
