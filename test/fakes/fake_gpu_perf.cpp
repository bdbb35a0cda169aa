// A program over fake GPUs and a fake NCCL: fake_gpu_perf COLLECTIVE [options of COLLECTIVE_perf], fake_gpu_perf comm
// [options of comm_perf], or fake_gpu_perf compare [arguments of busbar compare], with NCCL_HOME naming the folder of
// the fake library. 98 where it ended well but broke a rule of the libraries that is told by no result, or gave not
// everything back.

#include "driver/compare/compare.h"
#include "fakes/fake_gpu.h"
#include "programs/comm/comm_perf.h"
#include "programs/perf/perf.h"

#include <cstdio>
#include <string_view>
#include <vector>

namespace {

constexpr int kBrokeRules = 98;

int run(int argc, char** argv) {
  std::vector<char*> rest{argv[0]};
  rest.insert(rest.end(), argv + 2, argv + argc + 1);  // with the closing null
  if (std::string_view(argv[1]) == "compare") return busbar::run_compare(argc - 1, rest.data(), {});
  if (std::string_view(argv[1]) == "comm") return busbar::run_comm(argc - 1, rest.data());
  return busbar::run_perf(argc - 1, rest.data(), argv[1]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: fake_gpu_perf COLLECTIVE [options]\n");
    return 255;
  }
  const int code = run(argc, argv);
  if (code != 0) return code;
  if (const std::string left = fake_gpu::left_behind(); !left.empty()) fake_gpu::refuse("left behind: " + left);
  return fake_gpu::refusals() > 0 ? kBrokeRules : 0;
}
