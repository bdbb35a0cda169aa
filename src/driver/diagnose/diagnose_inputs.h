#pragma once

#include "common/evidence/hang_evidence.h"
#include "common/record/host_look.h"
#include "common/watch/flight_record.h"
#include "driver/diagnose/diagnosis.h"
#include "driver/diagnose/job_book.h"
#include "driver/readers/input_file.h"
#include "driver/readers/log_files.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// What the paths of `busbar diagnose` hold, judged by content.
struct DiagnoseInputs {
  struct OtherFile {
    std::filesystem::path path;
    std::string what;  ///< "hang report", "answer of NCCL's RAS service", "flight record", ...
    std::uint64_t bytes = 0;
    bool is_evidence = true;  ///< false: results of other commands, hang reports that cannot be read
  };
  std::vector<InputFile> logs;  ///< all files of no other kind
  std::vector<RasEvidence> ras;
  std::vector<HangEvidence> hangs;  ///< of hang-JOBID.json
  std::vector<JobLook> looks;       ///< of `busbar triage -J`
  std::vector<FlightState> flights;
  std::vector<OtherFile> others;  ///< the files that are not logs
};

/// Looks at the beginning of each file. Never blocks on a pipe and never throws for what is in a file.
DiagnoseInputs sort_inputs(std::span<const InputFile> files);

/// The records of job `jobid`, or, if that is empty, of the job that was started last. Throws Error(bad_config) with
/// the choices if there is none.
std::vector<FlightState> flights_of_job(std::vector<FlightState> flights, std::string_view jobid);

/// A line per job, the newest first: when it began, its ranks, whether they run or how they ended.
std::string jobs_text(const std::vector<FlightState>& flights);

/// What the records of one job say, and what this host knows of its own ranks: processes, troubles and,
/// if they still run, what moves and NCCL's RAS service (2 s then, 11 s if that does not answer).
HangEvidence evidence_of_flights(std::vector<FlightState> flights);

/// What the logs of a job hold.
struct ReadLogs {
  JobBook job;
  std::vector<LogFile> files;        ///< in the order given
  std::vector<RasEvidence> ras;      ///< answers of NCCL's RAS service in the middle of logs
  std::vector<std::string> unknown;  ///< "FILE:LINE: text" of NCCL's lines that were not understood, the first ones
};

/// Reads them all, logs and dumps of PyTorch's Flight Recorder. `unknown_lines`: how many of those to keep.
ReadLogs read_logs(std::span<const InputFile> files, std::size_t unknown_lines);

/// What a program's output says of its end; nothing in a build without RE2 or libarchive.
std::optional<Finding> finding_in(std::string_view output);

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

/// For the terminal; `unknown`: with NCCL's lines that were not understood.
std::string diagnose_text(const DiagnoseResult& result, bool unknown);

/// One JSON object: that of the logs' diagnosis, its verdict that of all, and the hangs in a list of their own.
std::string diagnose_json(const DiagnoseResult& result);

/// The same into a new file, as results are written. Throws Error.
void write_diagnose_json(const std::string& path, const DiagnoseResult& result);

}  // namespace busbar
