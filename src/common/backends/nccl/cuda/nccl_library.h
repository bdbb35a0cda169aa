#pragma once

#include "common/backends/nccl/nccl_fields.h"

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// BUSBAR_NCCL(nccl, CommAbort(comm)): calls it through the table and throws unless it succeeds.
#define BUSBAR_NCCL(nccl, call)                                                            \
  do {                                                                                     \
    const ncclResult_t busbar_result = (nccl).call;                                        \
    if (busbar_result != ncclSuccess) {                                                    \
      ::busbar::throw_nccl_error((nccl), busbar_result, "nccl" #call, __FILE__, __LINE__); \
    }                                                                                      \
  } while (false)
/// The functions that every library from kMinNcclVersion on has.
// clang-format off
#define BUSBAR_NCCL_FUNCTIONS(F) \
  F(GetVersion) F(GetUniqueId) F(GetErrorString) F(GetLastError) F(CommInitRankConfig) F(CommSplit) F(CommDestroy) \
  F(CommAbort) F(CommGetAsyncError) F(MemAlloc) F(MemFree) F(CommRegister) F(CommDeregister) F(RedOpCreatePreMulSum) \
  F(RedOpDestroy) F(GroupStart) F(GroupEnd) F(AllReduce) F(AllGather) F(ReduceScatter) F(Broadcast) F(Reduce) F(Send) \
  F(Recv)
/// Those that it may lack.
#define BUSBAR_NEWER_NCCL_FUNCTIONS(F) \
  F(DevCommCreate) F(DevCommDestroy) F(TeamLsa) F(CommWindowRegister) F(CommWindowDeregister) F(CommShrink) \
  F(AlltoAll) F(Gather) F(Scatter) F(CommGetUniqueId) F(CommGrow) F(CommQueryProperties) F(ResetDebugInit)
// clang-format on

namespace busbar {

/// libnccl.so.2, found at run time so that the executables start on machines without it: NCCL's functions under their
/// names without the prefix. Loaded once and never unloaded, since NCCL keeps its own threads.
struct NcclLibrary {
  int version = 0;

#define BUSBAR_MEMBER(name) decltype(&nccl##name) name = nullptr;
  BUSBAR_NCCL_FUNCTIONS(BUSBAR_MEMBER)
#undef BUSBAR_MEMBER
  /// Device API, with types known only to nccl_device.h (device_communicator.cpp); null if a library lacks it.
  void* DevCommCreate = nullptr;
  void* DevCommDestroy = nullptr;
  void* TeamLsa = nullptr;
  // What came after NCCL 2.19, declared here because nccl.h may lack it; null if the library does.
  /// 2.27. A window is NCCL's ncclWindow_t.
  ncclResult_t (*CommWindowRegister)(ncclComm_t, void*, std::size_t, void** window, int flags) = nullptr;
  ncclResult_t (*CommWindowDeregister)(ncclComm_t, void* window) = nullptr;
  ncclResult_t (*CommShrink)(ncclComm_t, int* excluded, int nexcluded, ncclComm_t*, ncclConfig_t*, int flags) = nullptr;
  /// 2.28. `count`: elements for each peer.
  ncclResult_t (*AlltoAll)(const void*, void*, std::size_t count, ncclDataType_t, ncclComm_t, cudaStream_t) = nullptr;
  ncclResult_t (*Gather)(const void*, void*, std::size_t count, ncclDataType_t, int root, ncclComm_t,
                         cudaStream_t) = nullptr;
  decltype(Gather) Scatter = nullptr;
  /// 2.29.
  ncclResult_t (*CommGetUniqueId)(ncclComm_t, ncclUniqueId*) = nullptr;
  ncclResult_t (*CommGrow)(ncclComm_t, int nranks, const ncclUniqueId*, int rank, ncclComm_t*, ncclConfig_t*) = nullptr;
  /// `properties`: nccl_device.h's ncclCommProperties.
  ncclResult_t (*CommQueryProperties)(ncclComm_t, void* properties) = nullptr;
  /// Reads the NCCL_DEBUG variables again; deprecated, so null if a library no longer has it.
  void (*ResetDebugInit)() = nullptr;
};

/// Throws Error(not_possible) saying what is missing or too old, and how to point to a library: NCCL_HOME (its lib or
/// lib64 folder comes first), then LD_LIBRARY_PATH and what the system knows.
std::shared_ptr<const NcclLibrary> load_nccl();

/// The error text of load_nccl, or empty.
std::string nccl_problem();

/// Throws Error(backend) with the call, its place, NCCL's error and the text of its last warning.
[[noreturn]] void throw_nccl_error(const NcclLibrary& nccl, ncclResult_t result, const char* call, const char* file,
                                   int line);

/// An NCCL group of the calling thread, closed on every way out. Non-owning.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclLibrary& nccl) : nccl_(nccl) { BUSBAR_NCCL(nccl_, GroupStart()); }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() {
    if (open_) (void)nccl_.GroupEnd();
  }

  /// Launches what the group holds; a failure throws.
  void end() {
    open_ = false;
    BUSBAR_NCCL(nccl_, GroupEnd());
  }

 private:
  const NcclLibrary& nccl_;
  bool open_ = true;
};

/// What the ranks of one process need to join a communicator.
struct CommunicatorRequest {
  ncclUniqueId id{};
  int nranks = 1;
  std::vector<int> ranks;    ///< of this process
  std::vector<int> devices;  ///< one per rank
  int threads = 1;           ///< they join at the same time (-p), each for an equal share of the ranks
  NcclFields fields;
};

/// Joins the communicator with every rank of this process. Collective over all processes. Throws Error(backend); the
/// other processes may then wait for ever, so the job must be aborted.
///
/// Communicators are blocking, although NCCL's non-blocking ones can be aborted during set-up: for every launch on a
/// non-blocking communicator NCCL 2.28 starts a thread (group.cc, groupLaunchNonBlocking), which would be measured. The
/// watchdog decides how long joining may take.
std::vector<ncclComm_t> join_communicator(std::shared_ptr<const NcclLibrary> nccl, const CommunicatorRequest& request);

/// Calls `call` with these fields in NCCL's form, as join_communicator does.
void with_config(const NcclFields& fields, int library_version, const std::function<void(ncclConfig_t*)>& call);

/// Aborts them all, each after its GPU's number, and gives up after some seconds: the process is about to end. From any
/// thread, outside NCCL.
void abort_communicators(std::shared_ptr<const NcclLibrary> nccl,
                         std::vector<std::pair<int, ncclComm_t>> comms) noexcept;

}  // namespace busbar
