#include "driver/diagnose/log_chatter.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace busbar {
namespace {

/// How they begin, by subject.
constexpr std::string_view kChatter[] = {
    // Versions, libraries, plugins.
    "cudaDriverVersion ",
    "NCCL git version",
    "Loaded NVML",
    "NET/Plugin",
    "TUNER/Plugin",
    "PROFILER/Plugin",
    "ENV/Plugin",
    "GIN/Plugin",
    "RMA/Plugin",
    "Plugin Path",
    "P2P plugin",
    "Initialized NET plugin",
    "Failed to initialize NET plugin",
    "Assigned ",
    "Using non-device net plugin",
    "Using tuner plugin",
    "Successfully loaded",
    "GDRCOPY",
    // Settings.
    "Comm config ",
    "P2P Chunksize set",
    "Check P2P Type",
    "Launch mode",
    "Threads per block",
    "threadThresholds",
    "Symmetric VA size",
    "Setting affinity",
    "ncclTopoGetCpuAffinity",
    "Enabled NCCL Func",
    "Init CE",
    "workFifo",
    // The network and who is there.
    "NET/",
    "Local Net device counts",
    "MNNVL ",
    "Rank ",
    "rank ",
    "RAS ",
    // Topology and graphs: with GRAPH on they are most of an init.
    "Channel ",
    "Ring ",
    "Tree ",
    "Trees ",
    "Pattern ",
    "=== System",
    "======",
    "CPU/",
    "PCI/",
    "GPU/",
    "NIC/",
    "NVS/",
    "+ ",
    "- ",
    "(",
    "KV Convert",
    "Topology detection",
    "Algorithm ",
    "Protocol ",
    "Max NThreads",
    "Broadcast |",
    "Reduce |",
    "AllGather |",
    "ReduceScatter |",
    "AllReduce |",
    // Proxies, memory, registration.
    "[Proxy ",
    "New proxy",
    "Connected to proxy",
    "Connected ",
    "Opened ",
    "proxy",
    "Proxy",
    "UDS",
    "NVLS ",
    "CollNet",
    "COLLNET",
    "register ",
    "Register ",
    "regist",
    "ncclCommRegister",
    "ncclCommDeregister",
    "Allocated ",
    "Cuda Alloc",
    "Cuda Host Alloc",
    "Mem Alloc",
    "Mem Realloc",
    "CUMEM",
    "cuMem",
    "Memory used",
};

}  // namespace

bool is_chatter(std::string_view text) {
  return std::any_of(std::begin(kChatter), std::end(kChatter),
                     [text](std::string_view begin) { return text.starts_with(begin); });
}

}  // namespace busbar
