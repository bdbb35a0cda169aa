
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/job/before_session.h"
#include "common/output/table.h"
#include "common/processes/launcher.h"
#include "common/watch/flight_record.h"
#include "driver/command/subcommand.h"
#include "driver/diagnose/diagnose_inputs.h"
#include "driver/diagnose/diagnosis_report.h"
#include "driver/diagnose/log_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace busbar {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUnknownLines = 200;

struct DiagnoseOptions {
  std::vector<fs::path> paths;
  std::string flight_folder;
  std::string jobid;
  bool json = false;
  std::string json_file;
  bool unknown = false;
  bool help = false;
  bool help_capture = false;
};

std::vector<OwnOption> own_options(DiagnoseOptions& o) {
  using Text = std::string_view;
  return {
      {"json", "[=FILE]", "print JSON instead of text; with a file, write it there beside the text",
       [&](Text t) {
         o.json = t.empty();
         o.json_file = t;
       }},
      {"flight", "FOLDER", "read the flight records that busbar's jobs keep there (/dev/shm)",
       [&](Text t) { o.flight_folder = t; }},
      {"job", "ID", "with --flight: of this job; of the newest as a rule", [&](Text t) { o.jobid = t; }},
      {"unknown", "", "show NCCL's lines that were not understood", [&](Text) { o.unknown = true; }},
      {"help-capture", "", "how to run a job so that its logs tell what hung", [&](Text) { o.help_capture = true; }},
  };
}

std::string diagnose_help() {
  DiagnoseOptions unused;
  return "usage: busbar diagnose PATH... [--flight FOLDER] [options]\n\n"
         "Tells what is wrong with a job that hung, failed or is slow, from what it left: NCCL_DEBUG logs of any "
         "program\n"
         "(NCCL 2.4 to 2.30; one file per rank or all in one, in folders, with any launcher's decoration, cut or "
         "mixed\n"
         "up), the output of PyTorch's watchdog, dumps of its Flight Recorder as JSON, lines of NCCL's\n"
         "Inspector, kernel logs, answers of NCCL's RAS service, busbar's flight records and hang-JOBID.json. What a\n"
         "file is, is recognised by its content. \"-\": a log on standard input.\n\n" +
         own_options_help(own_options(unused)) +
         "\nExit codes: 0 OK; 3 HW_FAULT, HOST_UNREACHABLE, PROCESS_DEAD, RESOURCE, CONFIG; 4 PROCESS_STOPPED,\n"
         "INIT_NOT_JOINED, INIT_STUCK, ARG_MISMATCH, ORDER_MISMATCH, RANK_LAGGING, STUCK_INSIDE; 7 SLOW_NOT_HUNG;\n"
         "6 UNKNOWN; 255 bad use.\n";
}

// NCCL's variables are those of src/debug.cc (2.4 to 2.30), PyTorch's those of ProcessGroupNCCL.hpp (2.2 to 2.8).
std::string capture_help() {
  return R"(How to run a job so that `busbar diagnose` can tell what hung.

1. NCCL's log: one file per process, every communicator and every call. On all ranks:

     export NCCL_DEBUG=INFO
     export NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH,TUNING,COLL,P2P,NVLS
     export NCCL_DEBUG_FILE=/shared/logs/nccl.%h.%p.log
     export NCCL_DEBUG_TIMESTAMP_LEVELS=ALL NCCL_DEBUG_TIMESTAMP_FORMAT="[%F %T.%6f] "

   %h is the host, %p the process: without both, processes overwrite each other's file (no other letters are known).
   The timestamps come with NCCL 2.26; older ones ignore those variables. With mpirun pass all of them on
   (-x NCCL_DEBUG -x ...), with srun --export=ALL, with torchrun they are inherited.

   What each subsystem tells, and costs:
     INIT BOOTSTRAP ENV   who joined, who finished, what is set            a few kB per process, at start only
     NET GRAPH NVLS       network cards, GPU Direct, channels, paths       tens of kB per process, at start only
     TUNING               algorithm and protocol of each call              a line per call (2.23 on; before it a table)
     COLL                 each call with its arguments: the one that tells who is behind, and whose arguments differ
                          about 250 bytes and one write per call and rank; 10 GB a day at 500 calls/s.
                          For a job that runs for days: INIT,BOOTSTRAP,ENV,NET first, COLL once it is known to hang.
     P2P                  transports of each pair; at start and at the first use of an algorithm
   The file is written line by line, so that it is complete when the process is killed. A local disk (/tmp) serves as
   well where /shared is slow: collect the files of all hosts afterwards, because one that is missing looks like a rank
   that never spoke.

2. PyTorch, beside it:

     export TORCH_NCCL_TRACE_BUFFER_SIZE=20000 TORCH_NCCL_DUMP_ON_TIMEOUT=1
     export TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/shared/logs/fr_trace_
     export TORCH_NCCL_DESYNC_DEBUG=1
     export TORCH_CPP_LOG_LEVEL=INFO

   The buffer (the flight recorder, 2.2 on) costs memory and a little time per call; its dumps, made JSON, are read too
   (python3 -c 'import json,pickle,sys; print(json.dumps(pickle.load(open(sys.argv[1],"rb"))))' fr_trace_0 >fr_0.json).
   DESYNC_DEBUG adds a store access per call of every rank: only while looking for a hang. The watchdog's
   lines ("Watchdog caught collective operation timeout", "last enqueued NCCL work") are read from the job's output;
   keep the output of every rank: torchrun --redirects=3 --log-dir /shared/logs, or mpirun --output-filename.
   Shorten the timeout (init_process_group(timeout=...), 10 minutes as a rule) rather than waiting for it.

3. While it hangs, before anybody kills it, on one host of a job that runs NCCL 2.28.7 or newer:

     (echo "set format json"; echo "verbose status"; sleep 12) | nc localhost 28028 >/shared/logs/ras1.json
     ... the same once more after 10 s into ras2.json: only what both say is certain

   (NCCL_RAS_ADDR where it is set.) Do not ask an older NCCL: the question can crash a job of 2.24 to 2.28.6 that has
   a dead or stopped rank or is creating a communicator. And on every host:

     sudo dmesg -T >/shared/logs/dmesg.$(hostname)     # or journalctl -k --since -1h
     ps -eo pid,stat,wchan:32,etime,args >/shared/logs/ps.$(hostname)

4. Jobs of busbar itself need nothing of this: each rank keeps a flight record in /dev/shm.
     busbar diagnose --flight /dev/shm

Then:  busbar diagnose /shared/logs
)";
}

DiagnoseOptions read_options(int argc, char** argv) {
  DiagnoseOptions options;
  const CommandLine line = scan_arguments(argc, argv, own_options(options));
  for (const std::string& word : line.words) options.paths.emplace_back(word);
  options.help = line.asks_help();
  refuse_shared_options(line, "diagnose");
  if (options.help || options.help_capture) return options;
  if (options.paths.empty() && options.flight_folder.empty()) {
    throw Error(ExitCode::bad_config,
                "what to read? Give log files or folders, \"-\" for standard input, or --flight /dev/shm; `busbar "
                "diagnose --help-capture` tells how to get logs");
  }
  if (!options.jobid.empty() && options.flight_folder.empty()) {
    throw Error(ExitCode::bad_config, "--job goes with --flight FOLDER");
  }
  return options;
}

/// The evidence of each job that is not from logs, with the finding that follows from it.
std::vector<JudgedHang> judge_hangs(const DiagnoseOptions& options, DiagnoseInputs& inputs) {
  if (!options.flight_folder.empty()) {
    const fs::path folder = options.flight_folder;
    std::error_code unknown;
    if (!fs::is_directory(folder, unknown)) {
      throw Error(ExitCode::bad_config,
                  fmt::format("--flight {}: there is no such folder", in_quotes(folder.string())));
    }
    std::vector<FlightState> flights = read_flights(std::span(&folder, 1), "");
    if (flights.empty()) {
      throw Error(ExitCode::bad_config,
                  fmt::format("--flight {}: no flight record there; busbar's jobs keep theirs in /dev/shm, or $TMPDIR "
                              "where that is full, of each host, until the next run after a day",
                              in_quotes(folder.string())));
    }
    flights = flights_of_job(std::move(flights), options.jobid);
    inputs.others.push_back({folder, fmt::format("{} flight records of job {}", flights.size(), flights[0].jobid), 0});
    inputs.hangs.push_back(evidence_of_flights(std::move(flights)));
  }
  if (!inputs.flights.empty()) {
    inputs.hangs.push_back(evidence_of_flights(flights_of_job(std::move(inputs.flights), "")));
  }
  std::vector<JudgedHang> judged;
  for (HangEvidence& evidence : inputs.hangs) {
    evidence.ras.insert(evidence.ras.end(), inputs.ras.begin(), inputs.ras.end());
    HangFinding finding = judge(evidence);
    judged.push_back({std::move(evidence), std::move(finding)});
  }
  return judged;
}

int diagnose(int argc, char** argv, bool is_root) {
  const DiagnoseOptions options = read_options(argc, argv);
  if (!is_root) return static_cast<int>(ExitCode::good);
  if (options.help || options.help_capture) {
    fmt::print("{}", options.help ? diagnose_help() : capture_help());
    return static_cast<int>(ExitCode::good);
  }
  DiagnoseInputs inputs = sort_inputs(find_log_files(options.paths));
  const bool has_evidence = std::ranges::any_of(inputs.others, &DiagnoseInputs::OtherFile::is_evidence);
  if (!inputs.others.empty() && !has_evidence && inputs.logs.empty() && options.flight_folder.empty()) {
    const DiagnoseInputs::OtherFile& wrong = inputs.others.front();
    throw_bad_config(fmt::format("{} holds {}; give diagnose logs, hang-*.json or flight records",
                                 in_quotes(wrong.path.string()), wrong.what));
  }
  DiagnoseResult result;
  result.hangs = judge_hangs(options, inputs);
  result.others = std::move(inputs.others);
  // Where only our own evidence was given there are no logs to report on.
  if (!inputs.logs.empty() || !inputs.ras.empty() || result.hangs.empty()) {
    ReadLogs logs = read_logs(inputs.logs, options.unknown ? kUnknownLines : 0);
    result.unknown = std::move(logs.unknown);
    inputs.ras.insert(inputs.ras.end(), logs.ras.begin(), logs.ras.end());
    result.logs = logs.job.conclude(std::move(logs.files), inputs.ras);
  }
  if (!options.json_file.empty()) write_diagnose_json(options.json_file, result);
  if (!write_stdout(options.json ? diagnose_json(result) : diagnose_text(result, options.unknown))) {
    throw Error(ExitCode::internal, "stdout takes no more output; the diagnosis is incomplete");
  }
  return static_cast<int>(exit_code(verdict_of(result)));
}

}  // namespace

int run_diagnose(int argc, char** argv) {
  const Launch launch = detect_launch();
  return run_before_session(launch, [&] { return diagnose(argc, argv, launch.rank <= 0); });
}

}  // namespace busbar
