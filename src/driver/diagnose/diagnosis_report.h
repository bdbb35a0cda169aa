#pragma once

#include "driver/diagnose/diagnose_inputs.h"
#include "driver/diagnose/diagnosis.h"

#include <optional>
#include <string>
#include <vector>

namespace busbar {

/// A diagnosis for the terminal: verdict and evidence first, then the tables, what is missing, what to try next.
std::string diagnosis_text(const Diagnosis& diagnosis);

/// All that was found in all that was given.
struct DiagnoseResult {
  std::optional<Diagnosis> logs;  ///< empty if no logs were given
  std::vector<JudgedHang> hangs;
  std::vector<DiagnoseInputs::OtherFile> others;
  std::vector<std::string> unknown;
};

/// The first in the order of Verdict of what logs and hangs say: a primary cause in either explains the other.
Verdict verdict_of(const DiagnoseResult& result);

/// The hang whose verdict is that of all; null if the logs decide it.
const JudgedHang* decisive_hang(const DiagnoseResult& result);

/// For the terminal; `unknown`: with NCCL's lines that were not understood.
std::string diagnose_text(const DiagnoseResult& result, bool unknown);

/// One JSON object: that of the logs' diagnosis, its verdict that of all, and the hangs in a list of their own.
std::string diagnose_json(const DiagnoseResult& result);

/// The same into a new file, as results are written. Throws Error.
void write_diagnose_json(const std::string& path, const DiagnoseResult& result);

}  // namespace busbar
