#include "driver/diagnose/log_init.h"

#include "driver/diagnose/log_scan.h"

#include <cstdint>
#include <string_view>
#include <utility>

namespace busbar {
namespace {

/// Everything that "comm 0x... rank 3 nranks 8 ..." lines say, as words and values. All versions write them so; which
/// words there are is what changed.
struct CommWords {
  InitEvent event;
  CommShape shape;
  std::string_view end;  ///< "Init START", after the '-'
  bool has_comm = false;
  int keys = 0;
};

void read_word(std::string_view key, std::string_view value, CommWords& words) {
  InitEvent& event = words.event;
  ++words.keys;
  if (key == "comm") {
    words.has_comm = pointer_of(value, event.comm);
  } else if (key == "rank") {
    whole_number(value, event.rank);
  } else if (key == "nranks") {
    whole_number(value, event.nranks);
  } else if (key == "cudaDev") {
    whole_number(value, event.cuda_dev);
  } else if (key == "busId") {
    event.bus_id = value;
  } else if (key == "commId") {
    pointer_of(value, event.comm_id);
  } else if (key == "parent") {
    pointer_of(value, event.parent);
  } else if (key == "color") {
    whole_number(value, event.color);
  } else if (key == "nRanks") {
    whole_number(value, words.shape.nranks);
  } else if (key == "nNodes") {
    whole_number(value, words.shape.nnodes);
  } else if (key == "localRanks") {
    whole_number(value, words.shape.local_ranks);
  } else if (key == "localRank") {
    // The last field of the shape but one: with it, those before it are whole.
    words.shape.rank = event.rank;
  }
}

CommWords read_words(LogScan scan) {
  CommWords words;
  while (!scan.rest.empty()) {
    if (scan.take("- ")) {
      words.end = scan.rest;
      break;
    }
    const std::string_view key = scan.word();
    std::string_view value = scan.word();
    // NCCL 2.24 to 2.30 write "key 3- Init START" for children.
    const bool last = value.size() > 1 && value.ends_with('-');
    if (last) value.remove_suffix(1);
    read_word(key, value, words);
    if (last) {
      words.end = scan.rest;
      break;
    }
  }
  return words;
}

bool tell_event(std::string_view function, CommWords& words, LogFact& fact) {
  InitEvent& event = words.event;
  if (event.rank < 0 || event.nranks < 0) return false;
  const bool complete = words.end.starts_with("Init COMPLETE");
  const bool bootstrap = function == "bootstrapSplit" && words.end.starts_with("DONE");
  // 2.3 and the first 2.4: "comm 0x... rank 0 nranks 2" at the start of it all, and nothing at its end.
  const bool oldest = function.empty() && words.end.empty() && words.has_comm && words.keys == 3;
  if (!complete && !bootstrap && !oldest && !words.end.starts_with("Init START")) return false;
  event.function = function;
  event.complete = complete;
  fact = event;
  return true;
}

bool parse_comm_line(std::string_view function, LogScan scan, LogFact& fact) {
  CommWords words = read_words(scan);
  if (words.end.empty() && words.shape.rank >= 0 && words.shape.nnodes >= 0) {
    words.shape.comm = words.event.comm;
    fact = words.shape;
    return true;
  }
  const bool abort = words.end.starts_with("Abort COMPLETE");
  if (abort || words.end.starts_with("Destroy COMPLETE")) {
    fact = CommEnd{.comm = words.event.comm, .rank = words.event.rank, .abort = abort};
    return true;
  }
  return tell_event(function, words, fact);
}

/// "(kernels 0.11, alloc 0.00, ... rest 0.00)": `tell` takes each name and value.
template <class Tell>
void read_parts(LogScan scan, Tell tell) {
  scan.skip_blanks();
  if (!scan.take("(")) return;
  for (;;) {
    const std::string_view name = scan.name();
    double value = 0;
    if (!scan.take(" ") || !scan.number(value)) return;
    // A value without ',' or ')' behind it is cut.
    const bool more = scan.take(", ");
    if (!more && !scan.take(")")) return;
    tell(name, value);
    if (!more) return;
  }
}

bool parse_timings(LogScan scan, LogFact& fact) {
  InitTimings timings;
  if (scan.take(" - ")) scan.name();
  if (!scan.take(": rank ") || !scan.number(timings.rank) || !scan.take(" nranks ") || !scan.number(timings.nranks) ||
      !scan.take(" total ") || !scan.number(timings.total)) {
    return false;
  }
  read_parts(scan, [&timings](std::string_view name, double value) {
    const std::pair<std::string_view, double*> parts[] = {
        {"kernels", &timings.kernels},         {"alloc", &timings.alloc}, {"bootstrap", &timings.bootstrap},
        {"allgathers", &timings.allgathers},   {"topo", &timings.topo},   {"graphs", &timings.graphs},
        {"connections", &timings.connections}, {"rest", &timings.rest}};
    for (const auto& [known, part] : parts) {
      if (name == known) *part = value;
    }
  });
  fact = timings;
  return true;
}

bool parse_bootstrap_timings(LogScan scan, LogFact& fact) {
  BootstrapTimings timings;
  if (!scan.number(timings.total)) return false;
  read_parts(scan, [&timings](std::string_view name, double value) {
    const std::pair<std::string_view, double*> parts[] = {
        {"create", &timings.create}, {"send", &timings.send}, {"recv", &timings.recv}, {"ring", &timings.ring}};
    for (const auto& [known, part] : parts) {
      if (name == known) *part = value;
    }
  });
  fact = timings;
  return true;
}

}  // namespace

bool parse_init(std::string_view text, LogFact& fact) {
  LogScan scan{text};
  if (scan.take("[Rank ")) {  // 2.29 on, before "Init START"
    int rank = -1;
    if (!scan.number(rank) || !scan.take("] ")) return false;
  }
  if (scan.rest.starts_with("comm ")) return parse_comm_line({}, scan, fact);
  if (scan.take("Init timings")) return parse_timings(scan, fact);
  if (scan.take("Bootstrap timings total ")) return parse_bootstrap_timings(scan, fact);
  if (scan.take("bootstrapSplit: ")) return parse_comm_line("bootstrapSplit", scan, fact);
  if (!scan.rest.starts_with("ncclComm")) return false;
  const std::string_view function = scan.name();
  return scan.take(" ") && parse_comm_line(function, scan, fact);
}

}  // namespace busbar
