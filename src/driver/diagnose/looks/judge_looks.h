#pragma once

#include "common/evidence/hang_evidence.h"
#include "common/record/host_look.h"
#include "common/record/json_values.h"

#include <string>
#include <string_view>

namespace busbar {

/// The ranks that hold the job up and why, or that none does. A rank that is elsewhere while others wait is late,
/// however many are like it: the majority is no proof. Pure.
JudgedHang judge_looks(const JobLook& looks);

/// The report for the terminal, in whole lines. Begins with what changed at the processes while they were watched.
std::string looks_report(const JobLook& looks, const JudgedHang& judged);

/// The document `triage`: the finding and all evidence, which `busbar diagnose` judges again.
Json triage_document(const JobLook& looks, const JudgedHang& judged);

/// The looks of such a document. Throws Error(bad_config) that begins with `name` on anything else.
JobLook read_triage_document(std::string_view text, const std::string& name);

}  // namespace busbar
