#pragma once

#include "driver/diagnose/job_book.h"
#include "driver/readers/log_line.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// A message about the initialization of a communicator.
struct InitMessage {
  std::string function = "ncclCommInitRank";
  std::uint64_t comm = 0;
  int rank = -1, nranks = -1, cuda_dev = 0;
  std::uint64_t comm_id = 0, parent = 0;
  int color = -1;
  bool complete = false;

  std::string line() const {
    std::string text = fmt::format("NCCL INFO {} comm {:#x} rank {} nranks {} cudaDev {} busId 1000", function, comm,
                                   rank, nranks, cuda_dev);
    if (comm_id != 0) text += fmt::format(" commId {:#x}", comm_id);
    if (parent != 0) text += fmt::format(" parent {:#x} color {}", parent, color);
    return text + (complete ? " - Init COMPLETE" : " - Init START");
  }
};

/// Logs of a made-up job, told as facts: rank r is process 1000 + r on node r/2, with its own pointers.
class MadeUpJob {
 public:
  explicit MadeUpJob(int nranks) : nranks_(nranks) {}

  static std::string host(int rank) { return "node" + std::to_string(rank / 2); }
  static std::uint64_t pointer(int rank, int comm) {
    return 0x1000u + 0x100u * static_cast<unsigned>(comm) + static_cast<unsigned>(rank);
  }

  /// `number` of the line within its rank's file; files are numbered by rank, unless all is in one.
  void say(JobBook& log, int rank, const LogFact& fact) {
    const std::string name = host(rank);
    LogLine line;
    line.origin.host = name;
    line.origin.pid = 1000 + rank;
    line.origin.tid = line.origin.pid;
    line.origin.dev = rank % 2;
    line.fact = fact;
    const std::size_t file = one_file ? 0 : static_cast<std::size_t>(rank);
    log.add(line, file, ++lines_[one_file ? 0 : rank]);
  }

  void say(JobBook& log, int rank, const InitMessage& message) {
    const std::string line = message.line();
    say(log, rank, parse_log_line(line).fact);
  }

  /// A line without NCCL's prefix.
  void say_bare(JobBook& log, int rank, std::string_view text) {
    LogLine line;
    line.fact = OtherLine{.nccl = false, .text = text};
    const std::size_t file = one_file ? 0 : static_cast<std::size_t>(rank);
    log.add(line, file, ++lines_[one_file ? 0 : rank]);
  }

  void start(JobBook& log, int rank, int comm = 0, std::uint64_t comm_id = 77) {
    say(log, rank, event(rank, comm, comm_id));
  }

  void complete(JobBook& log, int rank, int comm = 0, std::uint64_t comm_id = 77) {
    InitMessage done = event(rank, comm, comm_id);
    done.complete = true;
    say(log, rank, done);
  }

  void init(JobBook& log, int comm = 0, std::uint64_t comm_id = 77) {
    for (int rank = 0; rank < nranks_; ++rank) {
      start(log, rank, comm, comm_id);
      complete(log, rank, comm, comm_id);
    }
  }

  struct Called {
    std::string_view op = "AllReduce";
    std::uint64_t count = 1024;
    std::string_view dtype = "7";
    std::string_view redop = "0";
    std::int64_t root = 0;
    std::uint64_t op_count = 0;
  };

  void call(JobBook& log, int rank, const Called& called, int comm = 0) {
    say(log, rank,
        CollCall{.op = called.op,
                 .op_count = called.op_count,
                 .count = called.count,
                 .dtype = called.dtype,
                 .redop = called.redop,
                 .root = called.root,
                 .comm = pointer(rank, comm),
                 .nranks = nranks_});
  }

  void end(JobBook& log, int rank, bool abort = false, int comm = 0) {
    const std::string handle = fmt::format("{:#x}", pointer(rank, comm)), number = std::to_string(rank);
    say(log, rank, LineShape{"comm-end", {{"comm", handle}, {"rank", number}, {"end", abort ? "Abort" : "Destroy"}}});
  }

  void warn(JobBook& log, int rank, std::string_view text, std::string_view file = "transport/net.cc:1") {
    say(log, rank, Warning{.file = file, .function = {}, .text = text});
  }

  /// As many files as it has ranks, all read whole.
  std::vector<LogFile> files() const {
    std::vector<LogFile> list;
    for (int i = 0; i < (one_file ? 1 : nranks_); ++i) {
      LogFile file;
      file.path = "log." + std::to_string(i);
      file.lines = file.nccl_lines = 1;
      list.push_back(file);
    }
    return list;
  }

  Diagnosis conclude(JobBook& log) const { return log.conclude(files(), {}); }

  int nranks() const { return nranks_; }
  bool one_file = false;

 private:
  InitMessage event(int rank, int comm, std::uint64_t comm_id) const {
    return {.comm = pointer(rank, comm), .rank = rank, .nranks = nranks_, .cuda_dev = rank % 2, .comm_id = comm_id};
  }

  int nranks_;
  std::map<int, std::uint64_t> lines_;
};

inline bool says(const std::vector<std::string>& lines, std::string_view words) {
  for (const std::string& line : lines) {
    if (line.find(words) != std::string::npos) return true;
  }
  return false;
}

inline bool says(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

}  // namespace busbar
