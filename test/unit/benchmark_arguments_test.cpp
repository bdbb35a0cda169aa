// The bug this would catch: a launch that measures something else than what `busbar compare` was asked for.

#include "common/base/options.h"
#include "driver/compare/launch_rounds.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

Config read_back(const Config& config) {
  std::vector<std::string> words = benchmark_arguments(config);
  words.insert(words.begin(), "all_reduce_perf");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  const CommandLine line = scan_arguments(static_cast<int>(argv.size()), argv.data());
  return configure(line, std::nullopt, [](const char*) -> const char* { return nullptr; }).config;
}

}  // namespace

TEST_CASE("A launch is told all that was asked for", "[benchmark_arguments][unit]") {
  CHECK(read_back(Config{}) == Config{});
  Config c;
  c.sizes = {8, 1000, 4096};
  c.minbytes = 8;
  c.maxbytes = 4096;
  c.dtypes = {DType::bfloat16, DType::int8};
  c.ops = {Op::max, Op::min};
  c.all_roots = true;
  c.placement = Placements::in;
  c.backend = BackendChoice::nccl;
  c.stat = true;
  c.cadence = Cadence::stream;
  c.check = 0;
  c.nthreads = 2;
  c.ngpus = 4;
  c.timeout_s = 12.5;
  c.cta_policy = 1;
  c.unalign = 3;
  c.buffers = BufferUse::reuse;
  c.nonblocking = true;
  c.pattern = PingpongPattern::both;
  c.window = 9;
  c.pairs = PairChoice::all;
  c.mpi_threads = MpiThreads::serialized;
  CHECK(read_back(c) == c);
  c = Config{};
  c.minbytes = 8;
  c.maxbytes = 123456789;
  c.stepfactor = 1.7;
  c.root = 3;
  c.backend = BackendChoice::mpi;
  c.blocking = 2;
  CHECK(read_back(c) == c);
}
