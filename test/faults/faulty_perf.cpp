// A benchmark that breaks itself: faulty_perf COLLECTIVE KIND:RANK:CALL[+EVERY] [options of COLLECTIVE_perf],
// and a comparison of which one variant does: faulty_perf compare:VARIANT KIND:RANK:CALL [arguments of busbar compare].

#include "driver/compare/compare.h"
#include "faults/faulty_backend.h"
#include "programs/perf/perf.h"

#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: faulty_perf COLLECTIVE KIND:RANK:CALL[+EVERY] [options]\n");
    return 255;
  }
  try {
    const busbar::Fault fault = busbar::parse_fault(argv[2]);
    std::vector<char*> rest{argv[0]};
    rest.insert(rest.end(), argv + 3, argv + argc + 1);  // with the closing null
    constexpr std::string_view kCompare = "compare:";
    const std::string_view what = argv[1];
    if (what.starts_with(kCompare)) {
      const auto wrap = [&](std::unique_ptr<busbar::Backend> inner, const busbar::Variant& variant) {
        if (variant.label != what.substr(kCompare.size())) return inner;
        return busbar::make_faulty_backend(std::move(inner), fault);
      };
      return busbar::run_compare(argc - 2, rest.data(), wrap);
    }
    return busbar::run_perf(argc - 2, rest.data(), argv[1], [&](std::unique_ptr<busbar::Backend> inner) {
      return busbar::make_faulty_backend(std::move(inner), fault);
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "faulty_perf: %s\n", e.what());
    return 255;
  }
}
