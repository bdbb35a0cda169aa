#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The answer of NCCL's RAS service, in either format. Strings are as they came.
struct RasAnswer {
  struct Process {
    std::int64_t pid = -1;
    std::string host;
    std::string gpus;
  };
  /// Ranks of a communicator that launched the same number of an operation.
  struct Group {
    std::int64_t launched = 0;
    int size = 0;
    std::vector<int> ranks;  ///< empty: not listed
    bool operator==(const Group&) const = default;
  };
  struct Counts {
    std::string op;  ///< "AllReduce"; empty before 2.26, which counts all together
    std::vector<Group> groups;
    bool operator==(const Counts&) const = default;
  };
  struct Communicator {
    std::string id;
    int size = -1;
    std::vector<int> missing;          ///< ranks
    std::vector<Counts> counts;        ///< if ranks differ
    std::map<int, std::int64_t> pids;  ///< of ranks, if reported
    std::vector<std::string> notes;
    std::string complaint;  ///< of the text's heading: "INCOMPLETE", "MISMATCH", "ERROR"
    bool garbage = false;   ///< the report is impossible: a rank beyond its size, no node; its ranks are left out
  };
  /// Communicators that are alike: a row of the text's table.
  struct Kind {
    int communicators = 0;
    int nodes = 0;
    int size = 0;
    std::string status;  ///< "RUNNING"
    std::string errors;  ///< "OK", or what RAS complains of
  };

  bool known = false;  ///< the text is RAS's
  std::string version;
  std::vector<Process> dead;                ///< RAS had no connection to it for 60 s
  std::vector<Process> silent;              ///< gave no data in time
  std::vector<Communicator> communicators;  ///< of the text: only those that RAS complains of
  std::map<int, Kind> kinds;                ///< by group; the text's
  std::vector<std::string> events;          ///< of the monitor mode: peers in trouble, but not dead
  int timeouts = 0;
  std::int64_t launched = -1;  ///< operations launched by all ranks; -1: not reported
};

/// The text since 2.24, and of the monitor mode since 2.29. Reads what it can of anything.
RasAnswer parse_ras_text(std::string_view text);

/// The JSON since 2.28.7, also cut, and also that of 2.28.9, which lacks a comma if a rank is missing. Reads what it
/// can of anything.
RasAnswer parse_ras_json(std::string_view text);

/// The kind of a line in an answer's text: one of the headings, which come in this order and each once, another line of
/// an answer, or nothing of RAS. `communicator`: the heading of one communicator.
enum class RasPart : std::uint8_t {
  foreign,
  inside,
  communicator,
  version,
  job,
  communicators,
  table,
  errors,
  warnings
};
RasPart ras_part(std::string_view line);

/// "[2025-12-19 13:07:07] PEER_DEAD: Process 1524345 on node 172.16.64.245 managing GPU 1": returns the event of the
/// monitor mode (since 2.29) and the peer after it; empty if the line is no such event.
std::string_view ras_event(std::string_view line);

}  // namespace busbar
