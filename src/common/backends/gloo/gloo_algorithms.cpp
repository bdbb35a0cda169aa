#include "common/backends/gloo/gloo_algorithms.h"

#include "common/backends/backend.h"
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

std::string_view shown_gloo_algorithm(CollectiveId id, GlooAlgorithm all_reduce) {
  switch (id) {
    case CollectiveId::all_reduce:
      return all_reduce == GlooAlgorithm::ring    ? "ring"
             : all_reduce == GlooAlgorithm::bcube ? "bcube"
                                                  : kDefaultAlgorithm;
    case CollectiveId::reduce_scatter:
      return "halving_doubling";
    case CollectiveId::sendrecv:
    case CollectiveId::hypercube:
    case CollectiveId::pingpong:
      return "-";
    case CollectiveId::all_gather:
    case CollectiveId::broadcast:
    case CollectiveId::reduce:
    case CollectiveId::alltoall:
    case CollectiveId::alltoallv:
    case CollectiveId::gather:
    case CollectiveId::scatter:
    case CollectiveId::all_gatherv:
    case CollectiveId::reduce_scatterv:
    case CollectiveId::gatherv:
    case CollectiveId::scatterv:
    case CollectiveId::barrier:
      break;
  }
  return kDefaultAlgorithm;
}

}  // namespace busbar
