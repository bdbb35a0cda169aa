#include "collectives/collective.h"

namespace busbar {

const Collective& collective(CollectiveId id) {
  switch (id) {
#define BUSBAR_CASE(name, Name) \
  case CollectiveId::name:      \
    return k##Name;
    BUSBAR_COLLECTIVES(BUSBAR_CASE)
#undef BUSBAR_CASE
  }
  return kAllReduce;
}

const Collective* find_collective(std::string_view name) {
  for (CollectiveId id : kAllCollectives) {
    if (collective(id).name == name) return &collective(id);
  }
  return nullptr;
}

}  // namespace busbar
