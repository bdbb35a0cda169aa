#include "driver/launch/benchmark_arguments.h"

#include "collectives/dtype.h"
#include "collectives/op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

namespace busbar {
namespace {

template <class Value>
std::string name_list(const std::vector<Value>& values) {
  std::vector<std::string> names;
  for (const Value value : values) names.emplace_back(name(value));
  return fmt::format("{}", fmt::join(names, ","));
}

}  // namespace

std::vector<std::string> benchmark_arguments(const Config& config) {
  static constexpr std::string_view kPlacements[] = {"out", "in", "both"};
  static constexpr std::string_view kCadences[] = {"auto", "isolated", "stream"};
  const Config defaults;
  std::vector<std::string> words;
  const auto add = [&](std::string_view option, const auto& value) {
    words.push_back(fmt::format("--{}={}", option, value));
  };
  const auto add_unless = [&](std::string_view option, const auto& value, const auto& usual) {
    if (!(value == usual)) add(option, value);
  };
  if (config.sizes.empty()) {
    add("minbytes", config.minbytes);
    add("maxbytes", config.maxbytes);
    add("stepbytes", config.stepbytes);
    add("stepfactor", config.stepfactor);
  } else {
    add("sizes", fmt::format("{}", fmt::join(config.sizes, ",")));
  }
  add("datatype", name_list(config.dtypes));
  add("op", name_list(config.ops));
  add("root", config.all_roots ? "all" : std::to_string(config.root));
  add("placement", kPlacements[static_cast<int>(config.placement)]);
  add("backend", name(config.backend));
  if (config.stat) {
    words.emplace_back("--stat");
    add("cadence", kCadences[static_cast<int>(config.cadence)]);
  }
  add("check", config.check);
  add_unless("nthreads", config.nthreads, defaults.nthreads);
  add_unless("ngpus", config.ngpus, defaults.ngpus);
  add_unless("ranks-per-gpu", config.ranks_per_gpu, defaults.ranks_per_gpu);
  add_unless("agg_iters", config.agg_iters, defaults.agg_iters);
  add_unless("parallel_init", config.parallel_init ? 1 : 0, 0);
  add_unless("blocking", config.blocking, defaults.blocking);
  add_unless("stream_null", config.stream_null ? 1 : 0, 0);
  add_unless("timeout", config.timeout_s, defaults.timeout_s);
  add_unless("cudagraph", config.cudagraph, defaults.cudagraph);
  add_unless("local_register", config.local_register, defaults.local_register);
  if (config.cta_policy) add("cta_policy", *config.cta_policy);
  add_unless("unalign", config.unalign, defaults.unalign);
  return words;
}

}  // namespace busbar
