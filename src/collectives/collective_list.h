#pragma once

/// The collectives, one line each: COLLECTIVE(name, Name) is CollectiveId::name, the constant kName and the executable
/// name_perf. Read by the build, the tests and the scripts too, so a line holds one entry and nothing else.
#define BUSBAR_COLLECTIVES(COLLECTIVE)        \
  COLLECTIVE(all_reduce, AllReduce)           \
  COLLECTIVE(all_gather, AllGather)           \
  COLLECTIVE(reduce_scatter, ReduceScatter)   \
  COLLECTIVE(broadcast, Broadcast)            \
  COLLECTIVE(reduce, Reduce)                  \
  COLLECTIVE(alltoall, Alltoall)              \
  COLLECTIVE(alltoallv, Alltoallv)            \
  COLLECTIVE(gather, Gather)                  \
  COLLECTIVE(scatter, Scatter)                \
  COLLECTIVE(sendrecv, Sendrecv)              \
  COLLECTIVE(hypercube, Hypercube)            \
  COLLECTIVE(all_gatherv, AllGatherv)         \
  COLLECTIVE(reduce_scatterv, ReduceScatterv) \
  COLLECTIVE(gatherv, Gatherv)                \
  COLLECTIVE(scatterv, Scatterv)              \
  COLLECTIVE(barrier, Barrier)                \
  COLLECTIVE(pingpong, Pingpong)
