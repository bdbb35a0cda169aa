// What NCCL tells of itself, after its binary interfaces as docs of them describe (NCCL 2.28.9): profiler v5 and v4,
// tuner v5 and v4, and the log. Offsets are numbers here and not the suite's own declarations, so that these are
// tested. FAKE_NCCL_PLUGINS=4 makes it an older NCCL, which knows v4 only; 7 one that knows the profiler's v7 (2.31);
// FAKE_NCCL_COUNTS=1 prints counts at the end.

#include "fakes/fake_tells.h"

#include <dlfcn.h>
#include <strings.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

namespace fake_tells {
namespace {

constexpr int kInfo = 3;
constexpr unsigned long kInit = 0x1;
constexpr unsigned long kTuning = 0x40;

constexpr int kGroup = 1;
constexpr int kCollective = 2;
constexpr int kTransfer = 4;
constexpr int kKernelChannel = 64;
constexpr int kKernelPhase = 1 << 15;
constexpr int kGroupApi = 256;
constexpr int kCollectiveApi = 512;

// The log. ------------------------------------------------------------------------------------------------------------
constexpr int kUnknownLevel = -1;
std::mutex g_log_mutex;
std::atomic<int> g_level{kUnknownLevel};
unsigned long g_subsystems = 0;
FILE* g_file = stdout;

std::atomic<int> g_calls{0};
std::atomic<int> g_watched_calls{0};
std::atomic<int> g_tuning_lines{0};
std::atomic<int> g_members{0};

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void read_log_settings() {
  if (g_file != stdout) std::fclose(g_file);
  g_file = stdout;
  const std::string level = setting("NCCL_DEBUG");
  const std::string subsystems = setting("NCCL_DEBUG_SUBSYS");
  const std::string file = setting("NCCL_DEBUG_FILE");
  g_subsystems = subsystems.empty() ? kInit : subsystems == "TUNING" ? kTuning : ~0ul;
  const int number = level == "INFO" ? kInfo : level == "WARN" ? 2 : level == "VERSION" ? 1 : 0;
  if (number > 1 && !file.empty()) {
    if (FILE* opened = std::fopen(file.c_str(), "w")) {
      setlinebuf(opened);
      g_file = opened;
    }
  }
  g_level = number;
}

void log(int level, unsigned long subsystems, const char*, int, const char* format, ...) {
  if (g_level >= 0 && g_level < level) return;
  const std::lock_guard lock(g_log_mutex);
  if (g_level < 0) read_log_settings();
  if (g_level < level || (level == kInfo && (subsystems & g_subsystems) == 0)) return;
  if (subsystems == kTuning) ++g_tuning_lines;
  std::fprintf(g_file,
               level == kInfo ? "host:%d:%d [0] NCCL INFO " : "\n[2026-01-01 00:00:00] host:%d:%d [0] f:1 NCCL WARN ",
               getpid(), getpid());
  va_list values;
  va_start(values, format);
  std::vfprintf(g_file, format, values);
  va_end(values);
  std::fputc('\n', g_file);
}

// Plugins. ------------------------------------------------------------------------------------------------------------
void* open_plugin(const char* variable) {
  const std::string name = setting(variable);
  if (name.empty() || name == "none") return nullptr;
  return dlopen(strcasecmp(name.c_str(), "STATIC_PLUGIN") == 0 ? nullptr : name.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// A plugin's structure: its name and then functions.
struct Plugin {
  void** members = nullptr;
  int version = 0;
};

Plugin find_plugin(const char* variable, const std::string& symbol) {
  void* handle = open_plugin(variable);
  if (handle == nullptr) return {};
  const std::string newest = setting("FAKE_NCCL_PLUGINS");
  for (int version : {7, 5, 4}) {
    if (version > (newest.empty() ? 5 : std::stoi(newest))) continue;
    void* found = dlsym(handle, (symbol + std::to_string(version)).c_str());
    if (found != nullptr) return {static_cast<void**>(found), version};
  }
  return {};
}

template <class Function>
Function* member(const Plugin& plugin, int index) {
  return reinterpret_cast<Function*>(plugin.members[index]);
}

using Logger = decltype(&log);
std::once_flag g_plugins_once;
Plugin g_profiler;
Plugin g_tuner;
int g_mask = 0;

void load_plugins() {
  g_profiler = find_plugin("NCCL_PROFILER_PLUGIN", "ncclProfiler_v");
  g_tuner = find_plugin("NCCL_TUNER_PLUGIN", "ncclTunerPlugin_v");
  for (const auto& [plugin, what] :
       {std::pair(g_profiler, "PROFILER/Plugin: Loaded"), std::pair(g_tuner, "TUNER/Plugin: Using")}) {
    if (plugin.members == nullptr) continue;
    log(kInfo, kInit, "", 0, "%s %s (v%d)", what, static_cast<const char*>(plugin.members[0]), plugin.version);
  }
}

void must(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fake_nccl: %s\n", what);
  std::abort();
}

// Events. -------------------------------------------------------------------------------------------------------------
const char* name_of(Function function) {
  constexpr const char* kNames[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "Send", "Recv"};
  return kNames[function];
}

struct Choice {
  const char* algorithm = "RING";
  const char* protocol = "LL";
  int channels = 1;
};

/// A descriptor's bytes. What is not set is rubbish, as the rest of an 8-bit type in front of a pointer is.
struct Event {
  alignas(8) std::array<unsigned char, 136> bytes;

  explicit Event(int type) {
    bytes.fill(0xab);
    if (g_profiler.version >= 5) {
      put(0, std::uint64_t(type));
    } else {
      put(0, static_cast<std::uint8_t>(type));
    }
    put(8, static_cast<void*>(nullptr));
    put(16, 0);
  }
  template <class T>
  void put(std::size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }
};

void* deliver_kept(const Member& m, Event& event) {
  void* handle = &event;
  const auto start = member<int(void*, void**, void*)>(g_profiler, 2);
  must(start(m.profiler_context, &handle, event.bytes.data()) == 0, "the profiler refused an event");
  return handle;
}

void deliver(const Member& m, Event& event) { must(deliver_kept(m, event) == nullptr, "the profiler kept a handle"); }

void stop(void* handle, int state, std::uint64_t at_ns) {
  if (handle == nullptr) return;
  std::array<std::uint64_t, 2> arguments{at_ns, 0};
  must(member<int(void*, int, void*)>(g_profiler, 4)(handle, state, arguments.data()) == 0, "a state was refused");
  must(member<int(void*)>(g_profiler, 3)(handle) == 0, "an end was refused");
}

void tell_parents(const Member& m) {
  // v4 has no API events, and 256 does not fit its type.
  for (int type : {kGroupApi, kCollectiveApi, kGroup}) {
    if (g_profiler.version == 4 && type > 255) continue;
    Event parent(type);
    deliver(m, parent);
  }
}

void tell_collective(const Member& m, const Task& task, const Choice& choice) {
  Event e(kCollective);
  const bool moves_bytes = task.function == all_gather || task.function == broadcast;
  e.put(16, m.rank);
  e.put(24, std::uint64_t{7});
  e.put(32, name_of(task.function));
  e.put(56, moves_bytes ? task.count * task.element_bytes : task.count);
  e.put(64, 0);
  e.put(72, moves_bytes ? "ncclInt8" : task.datatype);
  e.put(80, static_cast<std::uint8_t>(choice.channels));
  e.put(81, std::uint8_t{16});
  e.put(88, choice.algorithm);
  e.put(96, choice.protocol);
  e.put(112, static_cast<void*>(nullptr));
  e.put(120, false);
  deliver(m, e);
}

/// v7 (2.31): the collective when it is launched, and from NCCL's own thread what its kernel did on each channel. The
/// last rank is the last to come: the others wait 2 us in each channel, it waits 1, and nobody waits at the end.
void tell_symmetric(const Member& m, const Task& task) {
  constexpr int kChannels = 3;
  Event e(kCollective);
  e.put(16, m.rank);
  e.put(32, name_of(task.function));
  e.put(80, static_cast<std::uint8_t>(kChannels));
  e.put(88, "AGxLL_R");
  e.put(96, "");
  e.put(112, "AllReduce_AGxLL_R");
  e.put(120, true);
  void* const kernel = deliver_kept(m, e);
  if ((task.wanted & kKernelPhase) == 0) return;
  must((task.wanted & kKernelChannel) != 0, "phases without their channels");
  std::thread([m, kernel] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (int channel = 0; channel < kChannels; ++channel) {
      const std::uint64_t start_ns = 1'000'000 + static_cast<std::uint64_t>(channel);
      Event on_channel(kKernelChannel);
      on_channel.put(8, kernel);
      on_channel.put(24, static_cast<std::uint8_t>(channel));
      on_channel.put(32, start_ns);
      void* const handle = deliver_kept(m, on_channel);
      std::uint64_t at_ns = start_ns;
      for (const std::uint64_t ns :
           {m.rank == m.nranks - 1 ? 1000u : 2000u, 5000u + 100u * static_cast<unsigned>(m.rank)}) {
        Event phase(kKernelPhase);
        phase.put(8, handle);
        phase.put(24, static_cast<std::uint8_t>(channel));
        phase.put(25, static_cast<std::uint8_t>(at_ns == start_ns ? 0 : 1));
        phase.put(40, at_ns);
        stop(deliver_kept(m, phase), 31, at_ns += ns);
      }
      stop(handle, 22, at_ns);
    }
  }).detach();
}

void tell_transfer(const Member& m, const Task& task) {
  Event e(kTransfer);
  e.put(16, m.rank);
  e.put(24, name_of(task.function));
  e.put(40, task.datatype);
  e.put(48, task.count);
  e.put(56, task.peer);
  e.put(60, std::uint8_t{2});
  deliver(m, e);
}

// Choosing. -----------------------------------------------------------------------------------------------------------
constexpr int kAlgorithms = 7;
constexpr int kProtocols = 3;
constexpr const char* kAlgorithmNames[] = {"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                           "NVLS_TREE", "PAT"};
constexpr const char* kProtocolNames[] = {"LL", "LL128", "SIMPLE"};
using Costs = std::array<float, kAlgorithms * kProtocols>;

/// Latency + bytes / bandwidth; LL128 is off, and only an all-reduce has trees.
Costs model(Function function, std::size_t nbytes) {
  Costs costs;
  costs.fill(-1);
  const auto n = static_cast<float>(nbytes);
  if (function == all_reduce) {
    costs[0] = 7 + n / 1000;
    costs[2] = 9 + n / 10000;
  }
  costs[3] = 8 + n / 2000;
  costs[5] = 10 + n / 20000;
  return costs;
}

bool choose(const Member& m, const Task& task, Choice& choice) {
  const bool all_ranks = task.function == all_gather || task.function == reduce_scatter;
  const std::size_t nbytes = task.count * task.element_bytes * static_cast<std::size_t>(all_ranks ? m.nranks : 1);
  Costs costs = model(task.function, nbytes);
  int channels = 0;
  if (g_tuner.members != nullptr) {
    using GetCollInfo = int(void*, int, std::size_t, int, float**, int, int, int, int*);
    if (member<GetCollInfo>(g_tuner, 2)(m.tuner_context, task.function, nbytes, 1,
                                        reinterpret_cast<float**>(costs.data()), kAlgorithms, kProtocols, 0,
                                        &channels) != 0) {
      return false;
    }
  }
  int best = -1;
  for (int i = 0; i < kAlgorithms * kProtocols; ++i) {
    if (costs[i] >= 0 && (best < 0 || costs[i] < costs[best])) best = i;
  }
  choice.algorithm = kAlgorithmNames[best / kProtocols];
  choice.protocol = kProtocolNames[best % kProtocols];
  choice.channels = channels != 0 ? channels : nbytes < 65536 ? 1 : 4;
  return true;
}

}  // namespace

void join(Member& member_) {
  std::call_once(g_plugins_once, load_plugins);
  ++g_members;
  if (g_profiler.version >= 5) {
    using Init = int(void**, std::uint64_t, int*, const char*, int, int, int, Logger);
    must(member<Init>(g_profiler, 1)(&member_.profiler_context, 99, &g_mask, nullptr, 1, member_.nranks, member_.rank,
                                     log) == 0,
         "the profiler's init failed");
  } else if (g_profiler.version == 4) {
    using Init = int(void**, int*, const char*, std::uint64_t, int, int, int, Logger);
    must(member<Init>(g_profiler, 1)(&member_.profiler_context, &g_mask, nullptr, 99, 1, member_.nranks, member_.rank,
                                     log) == 0,
         "the profiler's init failed");
  }
  const auto n = static_cast<std::size_t>(member_.nranks);
  if (g_tuner.version == 5) {
    using Init = int(void**, std::uint64_t, std::size_t, std::size_t, Logger, void*, void*);
    int domains[3] = {1, member_.nranks, member_.nranks};
    double constants[144] = {};
    must(member<Init>(g_tuner, 1)(&member_.tuner_context, 99, n, 1, log, domains, constants) == 0,
         "the tuner's init failed");
  } else if (g_tuner.version == 4) {
    using Init = int(std::size_t, std::size_t, Logger, void**);
    must(member<Init>(g_tuner, 1)(n, 1, log, &member_.tuner_context) == 0, "the tuner's init failed");
  }
}

void leave(Member& member_) {
  using Finish = int(void*);
  if (g_profiler.members != nullptr && member_.profiler_context != nullptr) {
    member<Finish>(g_profiler, 5)(member_.profiler_context);
  }
  if (g_tuner.members != nullptr) member<Finish>(g_tuner, 3)(member_.tuner_context);
  if (--g_members == 0 && !setting("FAKE_NCCL_COUNTS").empty()) {
    std::fprintf(stderr, "fake_nccl: %d calls, %d of them watched, %d lines of tuning\n", g_calls.load(),
                 g_watched_calls.load(), g_tuning_lines.load());
  }
}

void made(const Member& m, const char* function) {
  const double bootstrap_s = 0.01 * (m.rank + 1);
  log(kInfo, kInit, "", 0,
      "Init timings - %s: rank %d nranks %d total %.2f (kernels 0.12, alloc 0.06, bootstrap %.2f, allgathers 0.00, "
      "topo "
      "0.02, graphs 0.00, connections 0.01, rest 0.00)",
      function, m.rank, m.nranks, 0.21 + bootstrap_s, bootstrap_s);
}

int wanted_events() {
  const int mask = __atomic_load_n(&g_mask, __ATOMIC_RELAXED);
  ++g_calls;
  if (mask != 0) ++g_watched_calls;
  return mask;
}

bool launch(Member& m, const Task& task) {
  if (m.nranks == 1) return true;  // NCCL tells nothing of a communicator of one
  if (task.wanted != 0) tell_parents(m);
  if (task.function >= send) {
    if ((task.wanted & kTransfer) != 0) tell_transfer(m, task);
    return true;
  }
  const std::size_t logged = task.count * task.element_bytes;
  if (task.symmetric) {
    if (m.rank == 0) {
      log(kInfo, kTuning, "", 0, "%s [Symmetric]: %ld Bytes -> Kernel %s nchannels %d nthreads %d nWorks %d",
          name_of(task.function), static_cast<long>(logged), "AllReduce_AGxLL_R", 3, 512, 1);
    }
    if (g_profiler.version == 7 && task.wanted != 0) tell_symmetric(m, task);
    return true;
  }
  Choice choice;
  if (!choose(m, task, choice)) return false;
  if (m.rank == 0) {
    log(kInfo, kTuning, "", 0, "%s: %ld Bytes -> Algo %s proto %s channel{Lo..Hi}={%d..%d}", name_of(task.function),
        static_cast<long>(logged), choice.algorithm, choice.protocol, 0, choice.channels - 1);
  }
  if ((task.wanted & kCollective) != 0) tell_collective(m, task, choice);
  return true;
}

}  // namespace fake_tells

extern "C" void ncclResetDebugInit() {
  const std::lock_guard lock(fake_tells::g_log_mutex);
  fake_tells::g_level = -2;
}
