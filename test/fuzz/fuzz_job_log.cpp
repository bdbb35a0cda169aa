// Catches: a log, or several, damaged in any way, that crash `busbar diagnose`, or make it allocate without bound (a
// line may claim two thousand million ranks). An input is several files, with a form feed between them.

#include "driver/diagnose/job_book.h"
#include "driver/readers/log_files.h"
#include "fuzz_main.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

using namespace busbar;

extern const long kFuzzRounds = 10000;

namespace {

/// A file in memory that can be opened by its path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view text) : fd_(memfd_create("log", 0)) {
    if (fd_ < 0 || write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }

  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

std::vector<std::string_view> files_of(std::string_view input) {
  std::vector<std::string_view> files;
  for (std::size_t begin = 0; begin <= input.size() && files.size() < 8;) {
    const std::size_t end = std::min(input.find('\f', begin), input.size());
    files.push_back(input.substr(begin, end - begin));
    begin = end + 1;
  }
  return files;
}

LogFile read_into(JobBook& log, std::string_view text, std::size_t file) {
  LogFile read = read_log_file(MemoryFile(text).path(),
                               [&](const LogLine& line, std::uint64_t number) { log.add(line, file, number); });
  read.path = fmt::format("rank{}.log", file);
  return read;
}

std::size_t size_of(const Diagnosis& said) {
  std::size_t size = said.lags.size() + said.warnings.size() + said.transports.size() + said.skews.size() +
                     said.facts.size() + said.divergences.size() + said.missing.size() + said.algorithms.size();
  for (const Diagnosis::Init& init : said.communicators) {
    size += 1 + init.started.size() + init.completed.size() + init.not_seen.size() + init.slow_phases.size();
  }
  return size;
}

}  // namespace

std::string fuzz_one(std::string_view input) {
  const std::vector<std::string_view> texts = files_of(input);
  JobBook all;
  std::vector<LogFile> files;
  for (std::size_t i = 0; i < texts.size(); ++i) files.push_back(read_into(all, texts[i], i));
  const Diagnosis said = all.conclude(files, {});
  if (said.sentence.empty()) return "no sentence";
  if (said.evidence.size() > 5) return "more than five lines of evidence";
  if (name(said.verdict).empty()) return "no such verdict";
  // Whatever the lines claim, what is kept of them is bounded by their number.
  if (size_of(said) > 100000 + input.size())
    return fmt::format("{} things said of {} bytes", size_of(said), input.size());
  return {};
}

namespace {

/// What a rank of NCCL 2.28 (modern) or 2.8 writes until its communicator is there.
std::string beginning(int rank, int nranks, bool modern, bool completes) {
  const std::string who = fmt::format("node{}:{}:{} [{}] NCCL INFO ", rank / 2, 100 + rank, 100 + rank, rank % 2);
  const std::string comm = fmt::format("comm 0x7f{:04x}00 rank {} nranks {} cudaDev {}", rank, rank, nranks, rank % 2);
  std::string text = who + "NCCL_IB_TIMEOUT set by environment to 22.\n" + who +
                     "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n" + who + "Using network IB\n";
  if (!modern) {
    text += rank == 0 ? "NCCL version 2.8.4+cuda11.1\n" : "";
    text += who +
            fmt::format("Channel 00 : {}[1a000] -> {}[2b000] [send] via NET/IB/0/GDRDMA\n", rank, (rank + 1) % nranks);
    text += who + "Connected all rings\n" + who + "6 coll channels, 8 p2p channels, 1 p2p channels per peer\n";
    return text + (completes ? who + comm + " busId 1a000 - Init COMPLETE\n" : "");
  }
  const std::string init = "ncclCommInitRank " + comm + " nvmlDev 0 busId 1a000 commId 0x3470ca318760efc8 - Init ";
  text += who + "NCCL version 2.28.9+cuda13.0\n" + who + init + "START\n";
  text += who + fmt::format("comm 0x7f{:04x}00 rank {} nRanks {} nNodes 2 localRanks 2 localRank 0 MNNVL 0\n", rank,
                            rank, nranks);
  if (!completes) return text;
  text += who + init + "COMPLETE\n" + who +
          fmt::format(
              "Init timings - ncclCommInitRank: rank {} nranks {} total 52.46 (kernels 52.18, alloc 0.04, "
              "bootstrap 0.10, allgathers 0.01, topo 0.02, graphs 0.01, connections 0.08, rest 0.02)\n",
              rank, nranks);
  return text + who + "Connected all rings, use ring PXN 0 GDR 1\n" + who +
         "AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..3}\n";
}

std::string call(int rank, int nranks, int number, std::string_view op, int count, int root = 0) {
  return fmt::format(
      "node{}:{}:{} [{}] NCCL INFO {}: opCount {:x} sendbuff 0x7f00 recvbuff 0x7f00 count {} datatype 7 op 0 root {} "
      "comm "
      "0x7f{:04x}00 [nranks={}] stream 0x55\n",
      rank / 2, 100 + rank, 100 + rank, rank % 2, op, number, count, root, rank, nranks);
}

std::string torch(int rank) {
  return fmt::format(
      "[rank{}]:[E1121 10:20:00.1 ProcessGroupNCCL.cpp:616] [Rank {}] Watchdog caught collective operation "
      "timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for "
      "600043 milliseconds before timing out.\n",
      rank, rank);
}

/// A job of four ranks in four files; `deviant` makes the calls of rank 2.
std::string job(bool modern, bool completes, std::string_view deviant_op, int deviant_count, std::string_view tail) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank) {
    if (rank > 0) text += '\f';
    text += beginning(rank, 4, modern, completes);
    if (!completes) continue;
    for (int i = 0; i < 3; ++i) text += call(rank, 4, i, "AllReduce", 1000 + i);
    text += call(rank, 4, 3, "Send", 77, (rank + 1) % 4) + call(rank, 4, 4, "Recv", 77, (rank + 3) % 4);
    text += rank == 2 ? call(rank, 4, 5, deviant_op, deviant_count) : call(rank, 4, 5, "AllGather", 5000);
    text += rank == 2 ? tail : "";
  }
  return text;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  std::string timeouts;
  for (int rank = 0; rank < 4; ++rank) timeouts += torch(rank);
  return {
      job(true, true, "AllGather", 5000, ""),
      job(false, true, "AllGather", 2500, ""),
      job(true, true, "ReduceScatter", 5000, timeouts),
      job(true, false, "", 0, ""),
      job(false, true, "AllGather", 5000,
          "\nnode1:102:142 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
          "10.0.0.1<37877>\nnode1:102:142 [0] NCCL INFO proxy.cc:684 -> 6 [Proxy Thread]\n"),
      job(true, true, "AllGather", 5000,
          "\n[2026-11-21 10:00:03] node1:102:142 [0] transport/net_ib.cc:1298 (ncclIbTest) NCCL WARN NET/IB: Got "
          "completion from peer 10.0.0.1<4721> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 "
          "vendor_err=129 req_type=Send localGid fe80::1 remoteGidsfe80::2 hca mlx5_0\n"
          "Nov 21 10:00:07 node1 kernel: [ 4007.1] NVRM: Xid (PCI:0000:18:00): 79, pid=102, name=python, GPU has "
          "fallen "
          "off the bus.\n"),
      job(true, true, "AllGather", 5000,
          "\nnode1:102:102 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 "
          "bytes, error: No space left on device (28)\n(RayTrainWorker pid=615, ip=10.72.7.6) node1:102:142 [0] NCCL "
          "INFO "
          "node0:100:100 [0] NCCL INFO comm 0x7f000000 rank 0 nranks 4 cudaDev 0 busId 1a000 - Destroy COMPLETE\n"),
  };
}
