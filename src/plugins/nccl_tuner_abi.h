#pragma once

#include "plugins/nccl_plugin_abi.h"

#include <cstddef>
#include <cstdint>

namespace busbar {

/// NCCL's predicted times of one collective, float[nalgorithms][nprotocols] in microseconds although the interface says
/// float**. Negative: not usable. A tuner chooses by writing 0 to a usable entry.
using TunerCosts = float**;

/// Entry [algorithm][protocol] of the table.
inline float& tuner_cost(TunerCosts table, int nprotocols, int algorithm, int protocol) {
  return reinterpret_cast<float*>(table)[algorithm * nprotocols + protocol];
}

/// The same from v4 to v6. `function` is a TunerCollective; `nbytes` the larger of all that is sent and all that is
/// received; *channels arrives as 0 and stays 0 for NCCL's own choice. NCCL fails the collective unless this succeeds.
using TunerGetCollInfo = NcclResult (*)(void* context, int function, std::size_t nbytes, int pipe_ops, TunerCosts table,
                                        int nalgorithms, int nprotocols, int registered, int* channels);

/// v6 (NCCL 2.30): as v5, and the size of chunks, which null leaves to NCCL.
struct TunerV6 {
  const char* name;
  NcclResult (*init)(void** context, std::uint64_t comm_id, std::size_t nranks, std::size_t nnodes, NcclLogger logger,
                     void* nvlink_domains, void* constants);
  TunerGetCollInfo get_coll_info;
  NcclResult (*finalize)(void* context);
  NcclResult (*get_chunk_size)(void* context, int function, std::size_t nbytes, int algorithm, int protocol,
                               int nchannels, std::size_t* chunk_bytes);
};

/// v5 (NCCL 2.28).
struct TunerV5 {
  const char* name;
  NcclResult (*init)(void** context, std::uint64_t comm_id, std::size_t nranks, std::size_t nnodes, NcclLogger logger,
                     void* nvlink_domains, void* constants);
  TunerGetCollInfo get_coll_info;
  NcclResult (*finalize)(void* context);
};

/// v4 (NCCL 2.24 to 2.27).
struct TunerV4 {
  const char* name;
  NcclResult (*init)(std::size_t nranks, std::size_t nnodes, NcclLogger logger, void** context);
  TunerGetCollInfo get_coll_info;
  NcclResult (*destroy)(void* context);
};

}  // namespace busbar
