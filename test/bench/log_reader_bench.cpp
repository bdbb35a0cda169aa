// Would show: a reader of logs that is slower than the disks that the logs lie on. Aim: 300 MB/s on one core for logs
// full of collective calls, 100 MB/s for the lines of any other program.
//
// Each iteration reads a generated file twice, from memory: once as diagnose does, once only for where its lines end
// (the same blocks and memchr). Counters: GB per second of processor time of both (1e9 B/s, of the fastest iteration),
// and their ratio.

#include "driver/diagnose/diagnose_inputs.h"
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
#include <utility>
#include <vector>

namespace {

using namespace busbar;

constexpr std::size_t kFile = std::size_t{256} << 20;  ///< [bytes]

/// Lines of eight ranks of one host, as NCCL 2.28 writes them.
std::string some_calls() {
  std::string text;
  for (unsigned call = 0; text.size() < (std::size_t{1} << 20); ++call) {
    const unsigned rank = call % 8;
    fmt::format_to(std::back_inserter(text),
                   "gpu-node-{:04}:{}:{} [{}] NCCL INFO {}: opCount {:x} sendbuff 0x7f{:010x} recvbuff 0x7f{:010x} "
                   "count {} datatype 7 op 0 root 0 comm 0x55d8{:08x} [nranks=4096] stream 0x55d9{:08x}\n",
                   call % 512, 91370 + rank, 91425 + rank, rank, call % 3 == 0 ? "AllReduce" : "AllGather", call / 8,
                   call * 4096, call * 8192, 1024 << (call % 12), rank * 65536, rank * 4096);
  }
  return text;
}

/// Lines of one shape, in which each '#' is a digit.
std::string some_lines(std::string_view shape) {
  std::string text;
  for (unsigned digits = 1; text.size() < (std::size_t{1} << 20);) {
    for (const char c : shape)
      text += c == '#' ? static_cast<char>('0' + ((digits = digits * 69069 + 1) >> 16) % 10) : c;
  }
  return text;
}

constexpr std::pair<const char*, const char*> kLines[] = {
    {"connections", "node-000#:9137#:9142# [#] NCCL INFO Channel 0#/0 : 1##[#] -> 1##[#] [send] via NET/IB/#/GDRDMA\n"},
    {"Megatron",
     " [2026-11-20 10:##:##] iteration  1####/  500000 | elapsed time per iteration (ms): 4###.# | learning "
     "rate: #.######E-05 | lm loss: #.######E+00 | loss scale: 1.0 | number of nan iterations:   0 |\n"},
    {"Hugging Face", "{'loss': 1.####, 'grad_norm': 0.######, 'learning_rate': 9.########e-05, 'epoch': 1.##}\n"},
    {"mpirun", "[1,#]<stdout>:step 1#### loss 1.#### grad_norm 0.### tokens/s 18####\n"},
    {"torchrun", "[rank#]: epoch # batch 1## loss 1.#### took 0.### seconds\n"},
    {"trainer", "2026-11-21 15:##:##,### INFO trainer.py:412 step 1#### loss 1.#### grad_norm 0.### tokens/s 18####\n"},
    {"vLLM",
     "(EngineCore_0 pid=47) INFO 11-20 10:##:## [loggers.py:116] Engine 000: Avg prompt throughput: 1##.# tokens/"
     "s, Avg generation throughput: 5##.# tokens/s, Running: 1## reqs, Waiting: 0 reqs, KV cache usage: 1#.#%\n"},
    {"HTTP", "INFO:     10.0.0.#:4#### - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n"},
    {"SGLang", "[2026-11-20 10:##:## TP0] Decode batch. #running-req: 1#, gen throughput (token/s): 18##.##\n"},
    {"Ray", "(RayTrainWorker pid=12##, ip=10.0.0.#) [epoch #] step 1### loss=1.#### lr=#.##e-05 took 0.##s\n"},
    {"JAX", "I1120 10:##:##.###### 4711 trainer.py:412] completed step: 1###, seconds: #.###, loss: 1.###\n"},
    {"progress bar", "Epoch #:  5#%|==>       | 5#/100 [00:1#<00:2#,  #.##it/s, v_num=0, train_loss=1.###]\r"},
    {"Kubernetes", "2026-11-20T10:##:##.#########Z step 1###: loss=1.#### lr=#.##e-05 mem=71.##GiB\n"},
    {"kernel", "[ 1####.######] eth0: renamed from veth5####\n"},
    {"journal", "Nov 27 10:##:## gpu-node-0# systemd[1]: Started Session 4#### of user root.\n"}};

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
  std::uint64_t bytes = 0;
  for (auto _ : state) {
    read_s.push_back(seconds([&] {
      const InputFile input{memory.path(), memory.path(), "", nullptr};
      bytes = read_logs({&input, 1}, 0).files.front().bytes;
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
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const auto add = [](const char* name, const std::string& piece) {
    benchmark::RegisterBenchmark(name, read_beside_splitting, piece)->UseManualTime()->Unit(benchmark::kMillisecond);
  };
  add("calls", some_calls());
  for (const auto& [name, shape] : kLines) add(name, some_lines(shape));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
