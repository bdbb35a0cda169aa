#pragma once

#include "driver/diagnose/job_log.h"
#include "driver/diagnose/log_view.h"

namespace busbar {

/// Communicators, lags, divergences, skews, transports, algorithms and warnings
/// of a diagnosis.
void fill_tables(const LogView& view, Diagnosis& diagnosis);

/// Versions, settings, devices: one fact per thing, keys as in snake_case.
void fill_facts(const LogView& view, Diagnosis& diagnosis);

}  // namespace busbar
