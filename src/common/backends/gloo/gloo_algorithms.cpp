#include "common/backends/gloo/gloo_algorithms.h"

#include "common/backends/backend.h"
#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/text.h"

#include <fmt/format.h>

namespace busbar {

GlooAlgorithm find_gloo_algorithm(std::string_view name) {
  if (name == "ring") return GlooAlgorithm::ring;
  if (name == "bcube") return GlooAlgorithm::bcube;
  throw_bad_config(fmt::format("Gloo has no algorithm {}; choose from: ring bcube all", in_quotes(name)));
}

std::vector<std::string> gloo_algorithms(const Collective& collective, std::string_view value) {
  if (collective.id != CollectiveId::all_reduce) {
    throw_bad_config(fmt::format("Gloo has one algorithm for {}; all_reduce has ring and bcube", collective.name));
  }
  if (value == "all") return {"ring", "bcube"};
  find_gloo_algorithm(value);
  return {std::string(value)};
}

std::string_view shown_gloo_algorithm(const Collective& collective, GlooAlgorithm all_reduce) {
  if (only_transfers(collective)) return "-";
  if (collective.id == CollectiveId::reduce_scatter) return "halving_doubling";
  if (collective.id != CollectiveId::all_reduce || all_reduce == GlooAlgorithm::unspecified) return kDefaultAlgorithm;
  return all_reduce == GlooAlgorithm::ring ? "ring" : "bcube";
}

}  // namespace busbar
