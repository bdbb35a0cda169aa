// Catches: a line of a log, damaged in any way, that makes the parser read out of bounds, loop, throw, or hand over a
// text that does not lie in the line; a call taken from a line of which a part is missing; and files whose lines depend
// on how they are cut into blocks.

#include "driver/readers/log_files.h"
#include "driver/readers/log_line.h"
#include "fuzz_main.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

using namespace busbar;

namespace {

using fuzz::below;
using fuzz::Random;

constexpr std::string_view kPrefixes[] = {
    "node7:4242:4300 [3] NCCL INFO ",
    "[1,3]<stdout>:node7:4242:4300 [3] NCCL INFO ",
    "(RayTrainWorker pid=615, ip=10.7.7.6) node7:615:700 [3] NCCL INFO ",
    "2026-05-05T06:16:47.123456789Z stdout F node7:4242:4300 [3] NCCL INFO ",
    "[2026-05-05 06:16:47] node7:4242:4300 [3] transport/net_ib.cc:123 (ncclIbTest) NCCL WARN ",
    "node7:4242:4300 NCCL CALL ",
    "node7:4242:4300 [3] 12.345 bootstrap:12 NCCL TRACE ",
    "[3] NCCL INFO ",
    "NCCL INFO ",
    "",
};

constexpr std::string_view kMessages[] = {
    "AllReduce: opCount 1f sendbuff 0x7f5a00000000 recvbuff 0x7f5a00200000 count 1048576 datatype 7 op 2 root 0 comm "
    "0x55d0aa10 [nranks=16] stream 0x55d0bb20",
    "Broadcast: opCount 3 sendbuff 0x7f12 recvbuff 0x7f12 count 53 size 424 datatype 4 op 0 root 5 comm 0x7f44 "
    "[nranks=8]",
    "AllReduce: opCount 280 count 512",
    "[Rank 2] ncclCommInitRank comm 0x55 rank 2 nranks 16 cudaDev 2 nvmlDev 2 busId 3b000 commId 0x3571 - Init START",
    "ncclCommSplit comm 0x5 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 36000 parent 0x19 splitCount 1 color -2 key 3- "
    "Init START",
    "comm 0x8ec0ac0 rank 6 nRanks 16 nNodes 2 localRanks 8 localRank 6 MNNVL 0",
    "comm 0x5967 rank 1 nranks 2 cudaDev 0 busId 2000 - Destroy COMPLETE",
    "bootstrapSplit: comm 0x7fd7 parent 0xd8 rank 2 nranks 8 color 7 key 2 prev 1 next 3 - DONE",
    "Init timings - ncclCommInitRank: rank 0 nranks 2 total 0.64 (kernels 0.11, alloc 0.05, rest -0.08)",
    "Bootstrap timings total 0.212081 (create 0.000030, send 0.000086, recv 0.206276, ring 0.003569, delay 0.000001)",
    "Channel 00/0 : 0[0] -> 9[1] [send] via NET/AWS Libfabric/0(8)/GDRDMA(PCI)/Shared",
    "Ring 00 : 0[1b000] -> 7[41000] via direct shared memory",
    "Connected all rings, use ring PXN 1 GDR 0",
    "16 coll channels, 1 collnet channels, 2 nvls channels, 32 p2p channels, 4 p2p channels per peer",
    "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={2..15} comm 0x55a7",
    "805306368 Bytes -> Algo 1 proto 2 time 3970.683594",
    "AllReduce [Symmetric]: 4096 Bytes -> Kernel AllReduce_AGxLL_R nchannels 4 nthreads 512 nWorks 1",
    "NCCL version 2.28.9+cuda13.0",
    "NCCL_IB_TIMEOUT set by environment to 18.",
    "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
    "NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 0 (distance 3 >= 2)",
    "NET/IB : GPU Direct RDMA Enabled for HCA 5 'mlx5_5'",
    "NVLS multicast support is not available on dev 1",
    "proxy.cc:684 -> 5 [Proxy Thread]",
    "Call to connect returned Connection refused, retrying",
    "[rank3]:[E1025 12:00:00.000 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600100 milliseconds",
    "[rank3]:[E1025 12:00:00.000 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank 3] failure detected by "
    "watchdog at work sequence id: 42 PG status: last enqueued work: 44, last completed work: 41",
    "[12345.678901] NVRM: Xid (PCI:0000:18:00): 79, pid=1234, GPU has fallen off the bus.",
    "Nov 21 15:00:00 node7 kernel: Out of memory: Killed process 4242 (python3) total-vm:1kB",
    "     33554432       8388608   float     sum   1965.1   17.08   32.02  5e-07",
};

constexpr std::array<std::string_view, 22> kFragments{
    " ",  "\t",    "\r",        "\0\0",    "0x",   "0x...",    "(nil)",
    "-",  ":",     "[",         "]",       "NCCL", " - ",      "99999999999999999999",
    "-1", "1e999", "NCCL INFO", "\x1b[0m", "\xff", "opCount ", ": opCount ",
    "/"};

template <class List>
std::string_view one_of(Random& random, const List& list) {
  return std::data(list)[below(random, std::size(list))];
}

std::string some_line(Random& random) {
  std::string line = std::string(one_of(random, kPrefixes)) + std::string(one_of(random, kMessages));
  for (std::size_t edits = below(random, 5); edits > 0; --edits) {
    const std::size_t at = below(random, line.size() + 1);
    switch (below(random, 5)) {
      case 0:
        line.erase(at, below(random, 30));
        break;
      case 1:
        if (at < line.size()) line[at] = static_cast<char>(random());
        break;
      case 2:
        line.insert(at, one_of(random, kFragments));
        break;
      case 3:  // another process writes into it
        line.insert(at, std::string(one_of(random, kPrefixes)) + std::string(one_of(random, kMessages)));
        break;
      default:
        line.resize(at);
        break;
    }
  }
  return line;
}

/// Every text of a fact lies in the line, or is a literal of the parser, which is short.
bool inside(std::string_view text, std::string_view line) {
  const std::less_equal<const char*> before;
  const bool within = text.empty() || (before(line.data(), text.data()) &&
                                       before(text.data() + text.size(), line.data() + line.size()));
  return within || text.size() < 16;
}

struct Texts {
  std::vector<std::string_view> operator()(const OtherLine& f) const { return {f.text}; }
  std::vector<std::string_view> operator()(const CollCall& f) const { return {f.op, f.dtype, f.redop}; }
  std::vector<std::string_view> operator()(const Warning& f) const { return {f.file, f.function, f.text}; }
  std::vector<std::string_view> operator()(const LineShape& f) const {
    std::vector<std::string_view> parts;
    for (const auto& [name, part] : f.parts) parts.push_back(part);
    return parts;
  }
  std::vector<std::string_view> operator()(const TorchWork& f) const { return (*this)(f.said); }
  std::vector<std::string_view> operator()(const KernelEvent& f) const { return {f.device, f.text}; }
  template <class Fact>
  std::vector<std::string_view> operator()(const Fact&) const {
    return {};
  }
};

/// Why the line is not read as it must be; empty: it is. The line is copied to where a byte too far is seen by the
/// address sanitizer.
std::string complaint(const std::string& text) {
  const std::unique_ptr<char[]> exact(new char[text.size()]);
  text.copy(exact.get(), text.size());
  const std::string_view line(exact.get(), text.size());
  const LogLine parsed = parse_log_line(line);
  std::vector<std::string_view> texts = std::visit(Texts{}, parsed.fact);
  texts.insert(texts.end(), {parsed.origin.host, parsed.origin.timestamp, parsed.origin.decoration});
  for (const std::string_view part : texts) {
    if (!inside(part, line)) return "a text that does not lie in the line";
  }
  return "";
}

/// A call of random numbers, cut anywhere: what is still told of it must be true.
std::string complaint_about_cut(Random& random, std::string& line) {
  const std::uint64_t op_count = random() >> below(random, 64), count = random() >> (1 + below(random, 63));
  const std::uint64_t comm = 1 + (random() >> (1 + below(random, 63)));
  const int nranks = 1 + static_cast<int>(below(random, 100000));
  std::ostringstream text;
  text << one_of(random, kPrefixes) << "AllGather: opCount " << std::hex << op_count
       << " sendbuff 0x7f5a00000000 recvbuff (nil) count " << std::dec << count << " datatype 9 op 3 root 12 comm 0x"
       << std::hex << comm << std::dec << " [nranks=" << nranks << "] stream 0x55d0bb20";
  line = text.str();
  const bool warning = line.find("NCCL WARN") != std::string::npos;
  const std::size_t whole = line.size();
  line.resize(below(random, 4) == 0 ? whole : below(random, whole + 1));
  const LogLine parsed = parse_log_line(line);
  const auto* call = std::get_if<CollCall>(&parsed.fact);
  if (call == nullptr) return line.size() == whole && !warning ? "a whole call that is not seen" : "";
  const bool good = call->op == "AllGather" && call->op_count == op_count && call->count == count &&
                    call->comm == comm && (call->nranks == nranks || call->nranks == -1) && call->root == 12 &&
                    call->dtype == "9" && call->redop == "3";
  return good ? "" : "a call with numbers that were not written";
}

std::vector<std::string> lines_of(int fd) {
  LineReader reader(fd, std::numeric_limits<std::uint64_t>::max());
  std::vector<std::string> lines;
  for (std::string_view line; reader.next(line);) lines.emplace_back(line);
  return lines;
}

/// Lines long and short, read from a file, against what they are by definition.
std::string complaint_about_file(Random& random) {
  std::string text;
  std::vector<std::string> want;
  for (std::size_t left = 1 + below(random, 40); left > 0; --left) {
    std::string line = some_line(random);
    if (below(random, 8) == 0) line += std::string(below(random, 3u << 20), 'x');
    while (!line.empty() && line[0] == '\0') line.erase(0, 1);
    for (char& c : line) c = c == '\n' || c == '\r' ? ' ' : c;
    const bool ended = left > 1 || below(random, 2) == 0;
    text += line + (ended ? "\n" : "");
    if (ended || !line.empty()) want.push_back(line.substr(0, LineReader::kMaxLine));
  }
  const int fd = ::memfd_create("fuzz", 0);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return "no memory";
  ::lseek(fd, 0, SEEK_SET);
  const std::vector<std::string> got = lines_of(fd);
  ::close(fd);
  return got == want ? "" : "lines of a file that are not those written";
}

}  // namespace

const long kFuzzRounds = 200000;

std::string fuzz_one(std::string_view input) {
  std::string line(input);
  std::string why = complaint(line);
  if (!why.empty()) return why;
  Random random(std::hash<std::string>{}(line));
  why = complaint_about_cut(random, line);
  if (!why.empty()) return why + ": " + line;
  return below(random, 2000) == 0 ? complaint_about_file(random) : "";
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const std::string_view prefix : kPrefixes) {
    for (const std::string_view message : kMessages) seeds.push_back(std::string(prefix) + std::string(message));
  }
  return seeds;
}
