#pragma once

#include "common/record/json_values.h"
#include "driver/diagnose/job_log.h"

#include <string>

namespace busbar {

/// A diagnosis for the terminal: verdict and evidence first, then the tables, what is missing, what to try next.
std::string diagnosis_text(const Diagnosis& diagnosis);

/// All of it as one JSON object; the names are those of Diagnosis's members.
std::string diagnosis_json(const Diagnosis& diagnosis);
/// The same for what adds to it.
Json diagnosis_value(const Diagnosis& diagnosis);

}  // namespace busbar
