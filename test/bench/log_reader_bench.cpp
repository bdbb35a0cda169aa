// Would show: a reader of logs that is slower than the disks that the logs lie on. Aim: 300 MB/s on one core for logs
// full of collective calls, 150 MB/s for others.
//
// Each iteration reads a generated file twice, from memory: once for what its lines say, once only for where they end
// (the same blocks and memchr). Counters: GB per second of processor time of both (1e9 B/s, of the fastest iteration),
// and their ratio.

#include "driver/readers/log_files.h"
#include "thread_time.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace {

using namespace busbar;

constexpr std::size_t kFile = std::size_t{256} << 20;  ///< [bytes]

/// Lines of eight ranks of one host, as NCCL 2.28 writes them.
std::string some_calls(std::string_view decoration) {
  std::string text;
  for (unsigned call = 0; text.size() < (std::size_t{1} << 20); ++call) {
    const unsigned rank = call % 8;
    fmt::format_to(std::back_inserter(text),
                   "{}gpu-node-{:04}:{}:{} [{}] NCCL INFO {}: opCount {:x} sendbuff 0x7f{:010x} recvbuff 0x7f{:010x} "
                   "count {} datatype 7 op 0 root 0 comm 0x55d8{:08x} [nranks=4096] stream 0x55d9{:08x}\n",
                   decoration, call % 512, 91370 + rank, 91425 + rank, rank, call % 3 == 0 ? "AllReduce" : "AllGather",
                   call / 8, call * 4096, call * 8192, 1024 << (call % 12), rank * 65536, rank * 4096);
  }
  return text;
}

std::string some_connections() {
  std::string text;
  for (unsigned i = 0; text.size() < (std::size_t{1} << 20); ++i) {
    fmt::format_to(
        std::back_inserter(text),
        "gpu-node-{:04}:{}:{} [{}] NCCL INFO Channel {:02}/0 : {}[{}] -> {}[{}] [send] via NET/IB/{}/GDRDMA\n", i % 512,
        91370 + i % 8, 91425 + i % 8, i % 8, i % 32, i % 4096, i % 8, (i + 8) % 4096, i % 8, i % 8);
  }
  return text;
}

std::string some_prose() {
  std::string text;
  for (unsigned step = 0; text.size() < (std::size_t{1} << 20); ++step) {
    fmt::format_to(
        std::back_inserter(text),
        "2026-11-21 15:00:{:02},{:03} INFO trainer.py:412 step {} loss {:.4f} grad_norm {:.3f} tokens/s {}\n",
        step % 60, step % 1000, step, 2.0 + 1.0 / (1 + step), 0.3, 183000 + step % 977);
  }
  return text;
}

/// A file in memory that is there as long as the process, by a name that can be opened.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& piece) : fd_(::memfd_create("log_reader_bench", 0)) {
    for (std::size_t written = 0; written < kFile; written += piece.size()) {
      if (fd_ < 0 || ::write(fd_, piece.data(), piece.size()) != static_cast<ssize_t>(piece.size())) {
        fmt::print(stderr, "log_reader_bench: no memory for a file\n");
        std::exit(2);
      }
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  int rewound() const {
    ::lseek(fd_, 0, SEEK_SET);
    return fd_;
  }
  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

void read_beside_splitting(benchmark::State& state, const std::string& piece) {
  const MemoryFile memory(piece);
  std::vector<double> read_s, split_s;
  std::uint64_t bytes = 0, understood = 0, lines = 0;
  for (auto _ : state) {
    read_s.push_back(seconds([&] {
      understood = 0;
      const LogFile file = read_log_file(memory.path(), [&](const LogLine& line, std::uint64_t) {
        understood += std::holds_alternative<OtherLine>(line.fact) ? 0 : 1;
      });
      bytes = file.bytes;
      lines = file.lines;
    }));
    state.SetIterationTime(read_s.back());
    split_s.push_back(seconds([&] {
      LineReader reader(memory.rewound(), std::numeric_limits<std::uint64_t>::max());
      std::uint64_t split = 0;
      for (std::string_view line; reader.next(line);) ++split;
      benchmark::DoNotOptimize(split);
    }));
  }
  // The fastest, because what else runs on the machine only slows down.
  const double read = *std::min_element(read_s.begin(), read_s.end());
  const double split = *std::min_element(split_s.begin(), split_s.end());
  state.counters["GB/s"] = static_cast<double>(bytes) / read / 1e9;
  state.counters["memchr GB/s"] = static_cast<double>(bytes) / split / 1e9;
  state.counters["of memchr"] = split / read;
  state.counters["ns/line"] = read / static_cast<double>(lines) * 1e9;
  state.counters["understood"] = static_cast<double>(understood) / static_cast<double>(lines);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::string calls = some_calls(""), decorated = some_calls("(RayTrainWorker pid=91370, ip=10.72.7.6) ");
  const std::string connections = some_connections(), prose = some_prose();
  const auto add = [](const char* name, const std::string& piece) {
    benchmark::RegisterBenchmark(name, read_beside_splitting, piece)->UseManualTime()->Unit(benchmark::kMillisecond);
  };
  add("calls", calls);
  add("decorated calls", decorated);
  add("connections", connections);
  add("other programs' lines", prose);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
