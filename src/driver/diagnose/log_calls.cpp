#include "driver/diagnose/log_messages.h"
#include "driver/diagnose/log_scan.h"

#include <cstdint>
#include <string_view>

namespace busbar {
namespace {

/// The one shape that NCCL has printed from 2.4 on, word for word; anything else goes to read_loose.
bool read_strict(LogScan scan, CollCall& call) {
  if (!scan.take("sendbuff ")) return false;
  const std::string_view send = scan.word();
  if (!scan.take("recvbuff ")) return false;
  const std::string_view recv = scan.word();
  if (!scan.take("count ") || !scan.number(call.count)) return false;
  if (!scan.take(" datatype ")) return false;
  call.dtype = scan.word();
  if (!scan.take("op ")) return false;
  call.redop = scan.word();
  if (!scan.take("root ") || !scan.number(call.root) || !scan.take(" comm ")) return false;
  const std::size_t before = scan.rest.size();
  const std::string_view comm = scan.word();
  // At the end of the line the pointer may have lost digits.
  if (comm.size() == before || !pointer_of(comm, call.comm)) return false;
  if (scan.take("[nranks=") && (!scan.number(call.nranks) || !scan.take("]"))) call.nranks = -1;
  call.in_place = send == recv;
  return true;
}

/// Words and their values in any order and number: 2.3.5 has "size" among them, people cut columns out. A whole line of
/// NCCL has buffers and a communicator; one that has buffers only is cut.
bool read_loose(LogScan scan, CollCall& call) {
  std::string_view send, recv;
  bool has_count = false, has_comm = false;
  while (!scan.rest.empty()) {
    if (scan.take("[nranks=")) {
      if (!scan.number(call.nranks) || !scan.take("]")) call.nranks = -1;
      scan.skip_blanks();
      continue;
    }
    const std::string_view key = scan.word();
    const std::string_view value = scan.word();
    if (key == "count") {
      has_count = whole_number(value, call.count);
    } else if (key == "sendbuff") {
      send = value;
    } else if (key == "recvbuff") {
      recv = value;
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
  call.in_place = !send.empty() && send == recv;
  return has_count && (has_comm || (send.empty() && recv.empty()));
}

/// "[Symmetric]: 1024 Bytes -> Kernel AllReduce_AGxLL_R nchannels 4 ...".
bool read_kernel(LogScan scan, TuningChoice& choice) {
  choice.algo = scan.word();
  int nchannels = 0;
  if (scan.take("nchannels ") && scan.number(nchannels)) {
    choice.channel_lo = 0;
    choice.channel_hi = nchannels - 1;
  }
  return !choice.algo.empty();
}

}  // namespace

bool parse_call(std::string_view text, LogFact& fact) {
  LogScan scan{text};
  const std::string_view op = scan.name();
  std::uint64_t op_count = 0;
  if (op.empty() || !scan.take(": opCount ") || !scan.hexadecimal(op_count) || !scan.take(" ")) return false;
  CollCall& call = fact.emplace<CollCall>();
  if (!read_strict(scan, call)) {
    call = CollCall{};
    if (!read_loose(scan, call)) {
      fact.emplace<OtherLine>();
      return false;
    }
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
  if (scan.take("Kernel ")) {
    if (!read_kernel(scan, choice)) return false;
  } else {
    if (!scan.take("Algo ")) return false;
    choice.algo = scan.word();
    if (!scan.take("proto ")) return false;
    choice.proto = scan.word();
    if (choice.proto.empty()) return false;
    if (scan.take("channel{Lo..Hi}={")) {
      int lo = -1, hi = -1;
      if (!scan.number(lo) || !scan.take("..") || !scan.number(hi) || !scan.take("}")) return false;
      choice.channel_lo = lo;
      choice.channel_hi = hi;
    }
  }
  fact = choice;
  return true;
}

}  // namespace busbar
