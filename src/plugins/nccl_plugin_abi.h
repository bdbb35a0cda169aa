#pragma once

#include <cstddef>
#include <cstdint>

// What NCCL's plugin interfaces share. We declare this binary interface ourselves, so that plugins build without NCCL
// and run with any version of it: NCCL's enums are passed as int, and so are its result codes.

namespace busbar {

using NcclResult = int;
inline constexpr NcclResult kNcclSuccess = 0;

inline constexpr int kNcclLogWarn = 2;
inline constexpr int kNcclLogInfo = 3;
inline constexpr unsigned long kNcclLogTuning = 0x40;  ///< subsystem TUNING
inline constexpr unsigned long kNcclLogAll = ~0ul;

/// NCCL's own log, by level and subsystem; honors NCCL_DEBUG and the like.
using NcclLogger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);

/// NCCL's predicted times of one collective, float[nalgorithms][nprotocols] in microseconds although the interface says
/// float**. Negative: not usable. A tuner chooses by writing 0 to a usable entry.
using TunerCosts = float**;

/// Entry [algorithm][protocol] of the table.
inline float& tuner_cost(TunerCosts table, int nprotocols, int algorithm, int protocol) {
  return reinterpret_cast<float*>(table)[algorithm * nprotocols + protocol];
}

/// The same from v4 to v6. `function` is a TunerCollective; `nbytes` the larger of the bytes sent and received;
/// *channels is 0 on entry and stays 0 for NCCL's own choice. If this fails, NCCL fails the collective.
using TunerGetCollInfo = NcclResult (*)(void* context, int function, std::size_t nbytes, int pipe_ops, TunerCosts table,
                                        int nalgorithms, int nprotocols, int registered, int* channels);

/// v6 (NCCL 2.30): as v5, plus the size of chunks; null leaves it to NCCL.
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

// Events are delivered for the bits set in the activation mask, and their parents too.
inline constexpr std::uint64_t kProfileColl = 1u << 1;
inline constexpr std::uint64_t kProfileP2p = 1u << 2;
inline constexpr std::uint64_t kProfileKernelChannel = 1u << 6;
inline constexpr std::uint64_t kProfileCopyEngines = 1u << 12;  ///< from v6 on
inline constexpr std::uint64_t kProfileKernelPhase = 1u << 15;  ///< from v7 on, for symmetric kernels; rank not set

// States that record_event_state receives. Their argument is a time: nanoseconds of the GPU's clock.
inline constexpr int kKernelChannelStop = 22;
inline constexpr int kKernelPhaseStop = 31;

/// A collective as launched. The strings are NCCL's static ones: "AllReduce", "ncclFloat32", "RING", "LL128".
struct ProfiledCollective {
  std::uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* recv_buffer;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

/// One send or receive, also one that belongs to a collective.
struct ProfiledTransfer {
  const char* function;
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};

/// The fields that we use of a collective run by copy engines.
struct ProfiledCopy {
  std::uint64_t sequence;
  const char* function;  ///< "AllGather", "AlltoAll"
};

/// A part of what a kernel does on one channel.
struct ProfiledPhase {
  std::uint8_t channel;
  std::uint8_t phase;  ///< 0: initial_sync, 1: compute, 2: final_sync; one that took no time is not reported
  const char* name;
  std::uint64_t start_ns;  ///< by the GPU's clock
};

/// v5 (NCCL 2.28.3): the type has 64 bits, and collective and transfer end with the group they belong to. Later
/// versions only add: v6 (2.29) copy engines, v7 (2.31) the fields after a collective's group.
struct ProfilerEventV5 {
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    struct {
      ProfiledCollective task;
      void* parent_group;
      const char* kernel;  ///< v7: a symmetric kernel, "AllReduce_AGxLL_R"
      bool symmetric;      ///< v7
    } collective;
    struct {
      ProfiledTransfer task;
      void* parent_group;
    } transfer;
    ProfiledCopy copy;    ///< v6
    ProfiledPhase phase;  ///< v7
  };
};

/// v4 (NCCL 2.27).
struct ProfilerEventV4 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    ProfiledCollective collective;
    ProfiledTransfer transfer;
  };
};

/// v5 to v7.
struct ProfilerV5 {
  const char* name;
  NcclResult (*init)(void** context, std::uint64_t comm_id, int* activation_mask, const char* comm_name, int nnodes,
                     int nranks, int rank, NcclLogger logger);
  NcclResult (*start_event)(void* context, void** handle, ProfilerEventV5* event);
  NcclResult (*stop_event)(void* handle);
  NcclResult (*record_event_state)(void* handle, int state, void* arguments);
  NcclResult (*finalize)(void* context);
};

struct ProfilerV4 {
  const char* name;
  NcclResult (*init)(void** context, int* activation_mask, const char* comm_name, std::uint64_t comm_hash, int nnodes,
                     int nranks, int rank, NcclLogger logger);
  NcclResult (*start_event)(void* context, void** handle, ProfilerEventV4* event);
  NcclResult (*stop_event)(void* handle);
  NcclResult (*record_event_state)(void* handle, int state, void* arguments);
  NcclResult (*finalize)(void* context);
};

}  // namespace busbar

/// A variable that NCCL looks up by name: outside namespaces, whose names are mangled, and not const, which would keep
/// it out of the symbol table.
#define BUSBAR_NCCL_SYMBOL __attribute__((visibility("default")))
