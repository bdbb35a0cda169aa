#pragma once

#include "common/record/accept_result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// A result in Prometheus's text format 0.0.4, for node-exporter's textfile collector: gauges with HELP and TYPE, each
/// series once, no timestamps (the collector refuses files that have them). `tool`: "accept", "locate" or "doctor";
/// `end_s`: when the run ended, in seconds since 1970. Every series carries the plan's title as label `plan`, so that
/// files of several plans can lie side by side.
std::string prometheus_text(const AcceptResult& result, std::string_view tool, std::int64_t end_s);

/// `{a="1",b="x\"y"}`, values escaped; empty for no labels.
std::string prometheus_labels(const std::vector<std::pair<std::string, std::string>>& labels);

}  // namespace busbar
