#include "common/base/log_scan.h"
#include "driver/readers/log_line.h"

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
    if (has_comm) break;  // NCCL writes nothing of use after it
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

}  // namespace busbar
