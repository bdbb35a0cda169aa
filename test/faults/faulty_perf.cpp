// A benchmark that breaks itself: faulty_perf COLLECTIVE KIND:RANK:CALL [options of COLLECTIVE_perf].

#include "faults/faulty_backend.h"
#include "tools/perf.h"

#include <cstdio>
#include <exception>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: faulty_perf COLLECTIVE KIND:RANK:CALL [options]\n");
    return 255;
  }
  try {
    const busbar::Fault fault = busbar::parse_fault(argv[2]);
    std::vector<char*> rest{argv[0]};
    rest.insert(rest.end(), argv + 3, argv + argc + 1);  // with the closing null
    return busbar::run_perf(argc - 2, rest.data(), argv[1], [&](std::unique_ptr<busbar::Backend> inner) {
      return busbar::make_faulty_backend(std::move(inner), fault);
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "faulty_perf: %s\n", e.what());
    return 255;
  }
}
