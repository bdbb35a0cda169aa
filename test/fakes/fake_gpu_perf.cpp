// A benchmark over fake GPUs and a fake NCCL: fake_gpu_perf COLLECTIVE [options of COLLECTIVE_perf], with NCCL_HOME
// naming the folder of the fake library.

#include "tools/perf.h"

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: fake_gpu_perf COLLECTIVE [options]\n");
    return 255;
  }
  std::vector<char*> rest{argv[0]};
  rest.insert(rest.end(), argv + 2, argv + argc + 1);  // with the closing null
  return busbar::run_perf(argc - 1, rest.data(), argv[1]);
}
