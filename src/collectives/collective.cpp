#include "collectives/collective.h"

namespace busbar {

const Collective& collective(CollectiveId id) {
  switch (id) {
    case CollectiveId::all_reduce:
      return kAllReduce;
    case CollectiveId::all_gather:
      return kAllGather;
    case CollectiveId::reduce_scatter:
      return kReduceScatter;
    case CollectiveId::broadcast:
      return kBroadcast;
    case CollectiveId::reduce:
      return kReduce;
    case CollectiveId::alltoall:
      return kAlltoall;
    case CollectiveId::alltoallv:
      return kAlltoallv;
    case CollectiveId::gather:
      return kGather;
    case CollectiveId::scatter:
      return kScatter;
    case CollectiveId::sendrecv:
      return kSendrecv;
    case CollectiveId::hypercube:
      return kHypercube;
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
