#include "common/base/log_scan.h"
#include "driver/diagnose/log_line.h"
#include "driver/rules/line_rules.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace busbar {
namespace {

/// Words and their values in any order and number: 2.3.5 has "size" among them, people cut columns out. A whole line of
/// NCCL has buffers and a communicator; one that has buffers only is cut.
bool read_values(LogScan scan, CollCall& call) {
  bool has_count = false, has_comm = false, has_buffers = false;
  while (!scan.rest.empty()) {
    if (scan.take("[nranks=")) {
      if (!scan.number(call.nranks) || !scan.take("]")) call.nranks = -1;
      scan.skip_blanks();
      continue;
    }
    if (has_comm) break;  // NCCL writes nothing else of use behind it
    const std::string_view key = scan.word();
    const std::string_view value = scan.word();
    if (key == "count") {
      has_count = whole_number(value, call.count);
    } else if (key == "sendbuff" || key == "recvbuff") {
      has_buffers = has_buffers || !value.empty();
    } else if (key == "datatype") {
      call.dtype = value;
    } else if (key == "op") {
      call.redop = value;
    } else if (key == "root") {
      whole_number(value, call.root);
    } else if (key == "comm") {
      has_comm = !scan.rest.empty() && pointer_of(value, call.comm);
    }
  }
  return has_count && (has_comm || !has_buffers);
}

}  // namespace

bool parse_call(std::string_view text, LogFact& fact) {
  LogScan scan{text};
  const std::string_view op = scan.name();
  std::uint64_t op_count = 0;
  if (op.empty() || !scan.take(": opCount ") || !scan.hexadecimal(op_count) || !scan.take(" ")) return false;
  CollCall& call = fact.emplace<CollCall>();
  if (!read_values(scan, call)) {
    fact.emplace<OtherLine>();
    return false;
  }
  call.op = op;
  call.op_count = op_count;
  return true;
}

bool parse_tuning(std::string_view text, LogFact& fact) {
  TuningChoice choice;
  LogScan scan{text};
  if (!text.empty() && !is_digit(text.front())) {
    choice.op = scan.name();
    scan.take(" [Symmetric]");
    if (choice.op.empty() || !scan.take(": ")) return false;
  }
  if (!scan.number(choice.bytes) || !scan.take(" Bytes -> ")) return false;
  if (scan.take("Kernel ")) {  // "[Symmetric]: 1024 Bytes -> Kernel AllReduce_AGxLL_R nchannels 4 ..."
    choice.algo = scan.word();
    if (choice.algo.empty()) return false;
  } else {
    if (!scan.take("Algo ")) return false;
    choice.algo = scan.word();
    if (!scan.take("proto ")) return false;
    choice.proto = scan.word();
    if (choice.proto.empty()) return false;
    // "channel{Lo..Hi}={0..15}": without its end the line is cut.
    if (scan.rest.starts_with("channel{Lo..Hi}={") && scan.rest.find('}', 17) == kNotFound) return false;
  }
  fact = choice;
  return true;
}

namespace {

/// Everything that "comm 0x... rank 3 nranks 8 ..." lines say: keys and values. All versions write them so and differ
/// in which keys there are.
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
  } else if (key == "localRank") {
    // The last field of the shape but one: with it, those before it are whole.
    words.shape.rank = event.rank;
  }
}

CommWords read_words(LogScan scan) {
  CommWords words;
  while (!scan.rest.empty()) {
    bool last = scan.take("- ");
    if (!last) {
      const std::string_view key = scan.word();
      std::string_view value = scan.word();
      // NCCL 2.24 to 2.30 write "key 3- Init START" for children.
      last = value.size() > 1 && value.ends_with('-');
      if (last) value.remove_suffix(1);
      read_word(key, value, words);
    }
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

}  // namespace

bool parse_init(std::string_view text, LogFact& fact) {
  LogScan scan{text};
  if (scan.take("[Rank ")) {  // 2.29 on, before "Init START"
    int rank = -1;
    if (!scan.number(rank) || !scan.take("] ")) return false;
  }
  if (scan.rest.starts_with("comm ")) return parse_comm_line({}, scan, fact);
  if (scan.take("Init timings")) {
    InitTimings timings;
    if (!read_init_timings(scan, timings)) return false;
    fact = timings;
    return true;
  }
  if (scan.take("Bootstrap timings total ")) {
    BootstrapTimings timings;
    if (!scan.number(timings.total)) return false;
    fact = timings;
    return true;
  }
  if (scan.take("bootstrapSplit: ")) return parse_comm_line("bootstrapSplit", scan, fact);
  if (!scan.rest.starts_with("ncclComm")) return false;
  const std::string_view function = scan.name();
  return scan.take(" ") && parse_comm_line(function, scan, fact);
}

namespace {

/// "3", "3[0]", "3[1b000]": the bracket is a bus or a device, by version, and no rank.
bool take_rank(LogScan& scan, int& rank) {
  if (!scan.number(rank) || rank < 0) return false;
  if (scan.take("[")) {
    const std::size_t close = scan.rest.find(']');
    if (close == std::string_view::npos) return false;
    scan.rest.remove_prefix(close + 1);
  }
  return true;
}

/// "IB/0(8)/GDRDMA/Shared": the network's name ends before "/DEVICE", and may hold blanks and '/'.
std::string_view network_of(std::string_view detail) {
  for (std::size_t at = detail.find('/'); at != std::string_view::npos; at = detail.find('/', at + 1)) {
    if (at + 1 < detail.size() && is_digit(detail[at + 1])) return detail.substr(0, at);
  }
  return detail.substr(0, detail.find('/'));
}

bool read_via(std::string_view via, Connection& connection) {
  if (via == "direct shared memory") {  // up to 2.12
    connection.transport = "SHM";
    connection.detail = via;
    return true;
  }
  const std::size_t slash = via.find('/');
  if (slash == std::string_view::npos || slash + 1 == via.size()) return false;
  connection.transport = via.substr(0, slash);
  connection.detail = via.substr(slash + 1);
  if (connection.transport == "NET" || connection.transport == "COLLNET") {
    connection.network = network_of(connection.detail);
    connection.gdr = mentions(connection.detail, "/GDRDMA");
  }
  return true;
}

/// "00[/0] : 3[0] -> 4[1] [send] via NET/IB/0", after "Channel" or "Ring"; "00/0 : 3 [send] via COLLNET/SHARP/0" after
/// "CollNet".
bool parse_connection(LogScan scan, LogFact& fact) {
  Connection connection;
  int channel = 0;
  scan.skip_blanks();
  if (!scan.number(channel)) return false;
  if (scan.take("/") && !scan.number(channel)) return false;
  if (!scan.take(" : ") || !take_rank(scan, connection.src)) return false;
  if (scan.take(" -> ") && !take_rank(scan, connection.dst)) return false;
  if (!scan.take(" ")) return false;
  if (scan.take("[")) {
    const std::string_view direction = scan.word();
    if (direction != "send]" && direction != "receive]") return false;
  }
  if (!scan.take("via ") || !read_via(scan.rest, connection)) return false;
  fact = connection;
  return true;
}

bool parse_connected(LogScan scan, LogFact& fact) {
  Connected connected;
  if (scan.take("all rings")) {
    // From 2.24 on there is more; a value that is missing stays -1.
    if (scan.take(", use ring PXN ") && scan.number(connected.pxn) && scan.take(" GDR ")) scan.number(connected.gdr);
  } else if (scan.take("all trees") || scan.take("binomial trees")) {
    connected.what = Connected::What::trees;
  } else if (scan.take("NVLS tree")) {
    connected.what = Connected::What::nvls;
  } else {
    return false;
  }
  fact = connected;
  return true;
}

}  // namespace

bool parse_transport(std::string_view text, LogFact& fact) {
  LogScan scan{text};
  if (scan.take("Channel ") || scan.take("Ring ") || scan.take("CollNet ")) return parse_connection(scan, fact);
  if (scan.take("Connected ")) return parse_connected(scan, fact);
  return false;
}

}  // namespace busbar
