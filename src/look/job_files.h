#pragma once

#include "look/seen_process.h"

#include <cstddef>
#include <string>
#include <vector>

namespace busbar {

/// A file into which processes of a job write, and the descriptor through which it is read: that also reaches into
/// containers, and to files that were removed.
struct OpenLog {
  LookLog log;
  std::string at;  ///< "/proc/4242/fd/1"
};
void visit_fields(auto&& visit, OpenLog& l) { BUSBAR_ALL_FIELDS(visit, l, log, at); }

/// The logs among the open files of ranks and launchers: stdout, stderr, and names like a log's. None on `blocked`
/// mounts. Opens nothing.
std::vector<OpenLog> open_logs(const std::vector<SeenProcess>& processes, const std::vector<std::string>& blocked);

/// The log's size and age. Throws Error(not_possible).
OpenLog with_size(OpenLog open, double now_s);

/// The last `most` bytes of the log in whole lines, masked; nothing if they are no text. Throws Error(not_possible).
LookLog with_tail(OpenLog open, std::size_t most);

/// The dumps of PyTorch's Flight Recorder of these ranks that are there and newer than their processes, and the flight
/// records of busbar's own benchmarks.
std::vector<LookDump> find_dumps(const std::vector<SeenProcess>& processes, const std::vector<std::string>& blocked,
                                 double now_s);

/// The dump with its bytes, if it has at most `most`. Throws Error(not_possible).
LookDump with_bytes(LookDump dump, std::size_t most);

/// Asks the recorder of a rank for a dump through its pipe, which makes the process write a file, and waits for it.
/// Throws Error(not_possible): the rank has no pipe, or nobody reads it, or no dump came.
LookDump request_dump(const SeenProcess& rank, double limit_s);

}  // namespace busbar
