// Catches: a plugin structure laid out otherwise than NCCL's (offsets measured against NCCL 2.28.9), a symbol that NCCL
// would not find, an event kept or misread, and a tuner that touches what it must not.

#include "common/backends/nccl/nccl_observation.h"
#include "plugins/nccl_plugin_abi.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

static_assert(offsetof(ProfilerEventV5, type) == 0 && sizeof(ProfilerEventV5::type) == 8);
static_assert(offsetof(ProfilerEventV5, parent) == 8 && offsetof(ProfilerEventV5, rank) == 16);
static_assert(offsetof(ProfilerEventV5, collective.task.sequence) == 24);
static_assert(offsetof(ProfilerEventV5, collective.task.function) == 32);
static_assert(offsetof(ProfilerEventV5, collective.task.count) == 56);
static_assert(offsetof(ProfilerEventV5, collective.task.datatype) == 72);
static_assert(offsetof(ProfilerEventV5, collective.task.channels) == 80);
static_assert(offsetof(ProfilerEventV5, collective.task.warps) == 81);
static_assert(offsetof(ProfilerEventV5, collective.task.algorithm) == 88);
static_assert(offsetof(ProfilerEventV5, collective.task.protocol) == 96);
static_assert(offsetof(ProfilerEventV5, collective.parent_group) == 104);
static_assert(offsetof(ProfilerEventV5, transfer.task.function) == 24);
static_assert(offsetof(ProfilerEventV5, transfer.task.peer) == 56);
static_assert(offsetof(ProfilerEventV5, transfer.task.channels) == 60);
static_assert(offsetof(ProfilerEventV5, transfer.parent_group) == 64);
static_assert(sizeof(ProfilerV5) == 48);
static_assert(sizeof(ProfilerEventV4::type) == 1 && offsetof(ProfilerEventV4, rank) == 16);
static_assert(offsetof(ProfilerEventV4, collective.protocol) == 96 &&
              offsetof(ProfilerEventV4, transfer.channels) == 60);
static_assert(sizeof(ProfilerEventV4) == 104 && sizeof(ProfilerV4) == 48);
static_assert(sizeof(TunerV5) == 32 && sizeof(TunerV4) == 32);
// v6 of 2.30.7's headers, v7 of the repository's at 88980683: as v5, then what is new.
static_assert(offsetof(ProfilerEventV5, collective.kernel) == 112);
static_assert(offsetof(ProfilerEventV5, collective.symmetric) == 120);
static_assert(offsetof(ProfilerEventV5, copy.function) == 32);
static_assert(offsetof(ProfilerEventV5, phase.phase) == 25 && offsetof(ProfilerEventV5, phase.start_ns) == 40);
static_assert(sizeof(TunerV6) == 40);

namespace {

template <class Plugin>
Plugin& find_plugin(void* library, const char* symbol) {
  void* found = dlsym(library, symbol);
  CAPTURE(symbol);
  REQUIRE(found != nullptr);
  return *static_cast<Plugin*>(found);
}

std::vector<std::string> g_log;

void log(int level, unsigned long, const char*, int, const char* format, ...) {
  std::array<char, 1024> text;
  va_list values;
  va_start(values, format);
  std::vsnprintf(text.data(), text.size(), format, values);
  va_end(values);
  g_log.push_back(std::to_string(level) + " " + text.data());
}

template <class Event>
Event event_of(int rank) {
  Event e;
  std::memset(static_cast<void*>(&e), 0xab, sizeof e);
  e.rank = rank;
  return e;
}

/// NCCL's table of a communicator on which Ring with LL and Simple, and Tree with Simple, are usable.
struct Costs {
  std::array<float, 21> times{-1, -1, 20, 8, -1024, 10, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  int channels = 0;
  TunerCosts table() { return reinterpret_cast<TunerCosts>(times.data()); }
};

/// libbusbar_tuner.so with a table, driven as NCCL would for 16 ranks on 2 nodes.
class LoadedTuner {
 public:
  explicit LoadedTuner(const std::string& csv) {
    g_log.clear();
    const std::string path = dir_.file("table.csv");
    std::ofstream(path) << csv;
    setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
    open();
  }
  LoadedTuner() {
    g_log.clear();
    open();
  }
  LoadedTuner(const LoadedTuner&) = delete;
  LoadedTuner& operator=(const LoadedTuner&) = delete;
  ~LoadedTuner() {
    CHECK(plugin_->finalize(context_) == kNcclSuccess);
    dlclose(library_);
    unsetenv("NCCL_TUNER_CONFIG_FILE");
  }

  Costs ask(int function, std::size_t nbytes, int pipe_ops = 1, int registered = 0) {
    Costs costs;
    CHECK(plugin_->get_coll_info(context_, function, nbytes, pipe_ops, costs.table(), 7, 3, registered,
                                 &costs.channels) == kNcclSuccess);
    return costs;
  }

  /// Whether NCCL's table was left as it came.
  bool left_alone(int function, std::size_t nbytes) {
    const Costs costs = ask(function, nbytes);
    return costs.times == Costs().times && costs.channels == 0;
  }

 private:
  void open() {
    library_ = dlopen(BUSBAR_TUNER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library_ != nullptr);
    plugin_ = &find_plugin<TunerV5>(library_, "ncclTunerPlugin_v5");
    REQUIRE(plugin_->init(&context_, 1, 16, 2, log, nullptr, nullptr) == kNcclSuccess);
  }

  TempDir dir_;
  void* library_ = nullptr;
  TunerV5* plugin_ = nullptr;
  void* context_ = nullptr;
};

/// On a machine with a bundle and no build there is no library to load.
bool no_library() {
  if (std::filesystem::exists(BUSBAR_TUNER_LIBRARY)) return false;
  WARN("not tested: " BUSBAR_TUNER_LIBRARY " is not there");
  return true;
}

}  // namespace

TEST_CASE("NCCL finds the plugins of the executable, and each tells of rank 0 what it is told", "[nccl][plugins]") {
  void* const self = dlopen(nullptr, RTLD_NOW);
  auto& v5 = find_plugin<ProfilerV5>(self, "ncclProfiler_v5");
  auto& v7 = find_plugin<ProfilerV5>(self, "ncclProfiler_v7");
  auto& v6 = find_plugin<ProfilerV5>(self, "ncclProfiler_v6");
  auto& v4 = find_plugin<ProfilerV4>(self, "ncclProfiler_v4");
  int mask = 1;
  int handle_target = 0;
  void* context = &handle_target;
  REQUIRE(v5.init(&context, 5, &mask, nullptr, 1, 4, 0, nullptr) == kNcclSuccess);
  CHECK(context == nullptr);
  CHECK(mask == 0);
  nccl_observation().start();
  CHECK(mask == (2 | 4 | 4096));

  for (int rank : {1, 0}) {
    void* handle = &handle_target;
    auto e5 = event_of<ProfilerEventV5>(rank);
    e5.type = 2;
    e5.collective.task.function = "AllReduce";
    e5.collective.task.algorithm = "NVLS";
    e5.collective.task.protocol = "SIMPLE";
    e5.collective.task.channels = 16;
    CHECK(v5.start_event(nullptr, &handle, &e5) == kNcclSuccess);
    CHECK(handle == nullptr);
    handle = &handle_target;
    auto e4 = event_of<ProfilerEventV4>(rank);
    e4.type = 4;
    e4.transfer.function = nullptr;
    e4.transfer.channels = 3;
    CHECK(v4.start_event(nullptr, &handle, &e4) == kNcclSuccess);
    CHECK(handle == nullptr);
  }
  for (int rank : {1, 0}) {
    void* handle = &handle_target;
    auto e6 = event_of<ProfilerEventV5>(rank);
    e6.type = 4096;
    e6.copy.function = "AllGather";
    CHECK(v6.start_event(nullptr, &handle, &e6) == kNcclSuccess);
    CHECK(handle == nullptr);
    handle = &handle_target;
    auto e7 = event_of<ProfilerEventV5>(rank);
    e7.type = 2;
    e7.collective.task.function = "AllReduce";
    e7.collective.task.algorithm = "RING";
    e7.collective.task.channels = 2;
    e7.collective.kernel = "AllReduce_AGxLL_R";
    e7.collective.symmetric = rank == 0;
    CHECK(v7.start_event(nullptr, &handle, &e7) == kNcclSuccess);
    CHECK((handle != nullptr) == (rank == 0));
  }
  for (std::uint64_t parent : {1u, 256u, 512u, 8u}) {
    void* handle = &handle_target;
    auto e = event_of<ProfilerEventV5>(0);
    e.type = parent;
    CHECK(v5.start_event(nullptr, &handle, &e) == kNcclSuccess);
    CHECK(handle == nullptr);
  }
  const Observed observed = nccl_observation().end();
  CHECK(mask == 0);
  CHECK(observed.tasks == std::vector<LaunchedTask>{{false, "AllReduce", "NVLS", "SIMPLE", 16},
                                                    {true, "", "", "", 3},
                                                    {false, "AllGather", "", "", 0, true},
                                                    {false, "AllReduce", "AllReduce_AGxLL_R", "sym", 2}});

  int mask4 = 1;
  REQUIRE(v4.init(&context, &mask4, nullptr, 5, 1, 4, 0, nullptr) == kNcclSuccess);
  CHECK(mask4 == 0);
  CHECK(v4.stop_event(nullptr) == kNcclSuccess);
  CHECK(v5.record_event_state(nullptr, 0, nullptr) == kNcclSuccess);
  CHECK(v5.finalize(nullptr) == kNcclSuccess);
  int none = 0;
  nccl_observation().attach(&none, nullptr, 0);
  static int for_ever = 0;  // what follows in this process must not write to a mask that is gone
  nccl_observation().attach(&for_ever, nullptr, 0);
}

TEST_CASE("Waiting is told from transfer in symmetric kernels, of ranks all of whose channels ended",
          "[nccl][plugins]") {
  auto& v7 = find_plugin<ProfilerV5>(dlopen(nullptr, RTLD_NOW), "ncclProfiler_v7");
  static int mask = 1;
  void* context = nullptr;
  REQUIRE(v7.init(&context, 5, &mask, nullptr, 1, 4, 0, nullptr) == kNcclSuccess);
  const auto start = [&](const ProfilerEventV5& event) {
    ProfilerEventV5 copy = event;
    void* handle = &copy;
    CHECK(v7.start_event(nullptr, &handle, &copy) == kNcclSuccess);
    return handle;
  };
  const auto kernel = [&](int rank, int channels) {
    auto e = event_of<ProfilerEventV5>(rank);
    e.type = 2;
    e.collective.task.function = e.collective.kernel = "AllReduce_AGxLL_R";
    e.collective.task.algorithm = e.collective.task.protocol = "";
    e.collective.task.channels = static_cast<std::uint8_t>(channels);
    e.collective.symmetric = true;
    return start(e);
  };
  const auto channel = [&](void* of) {
    auto e = event_of<ProfilerEventV5>(0);
    e.type = 64;
    e.parent = of;
    return start(e);
  };
  const auto phase = [&](void* of, int id, std::uint64_t from_ns, std::uint64_t to_ns) {
    auto e = event_of<ProfilerEventV5>(0);
    e.type = 1 << 15;
    e.parent = of;
    e.phase.phase = static_cast<std::uint8_t>(id);
    e.phase.start_ns = from_ns;
    void* const handle = start(e);
    CHECK(v7.record_event_state(handle, 31, &to_ns) == kNcclSuccess);
    CHECK(v7.stop_event(handle) == kNcclSuccess);
  };
  const auto end_channel = [&](void* handle) {
    std::uint64_t at = 0;
    CHECK(v7.record_event_state(handle, 22, &at) == kNcclSuccess);
  };

  nccl_observation().start();
  CHECK(mask == (2 | 4 | 4096 | 64 | 32768));
  void* const whole = kernel(1, 2);
  void* const plain = kernel(2, 1);    // NCCL told no phases of it
  void* const partial = kernel(0, 2);  // one of its channels never ends
  for (const std::uint64_t late_ns : {0u, 500u}) {
    void* const on = channel(whole);
    phase(on, 0, 1000, 3000 + late_ns);
    phase(on, 1, 3000 + late_ns, 9000);
    if (late_ns > 0) phase(on, 2, 9000, 9100);  // of the other one it took no time
    end_channel(on);
  }
  end_channel(channel(plain));
  void* const open = channel(partial);
  phase(open, 0, 0, 1000);
  end_channel(open);
  const Observed observed = nccl_observation().end();
  CHECK(mask == 0);
  // Means of 2000 and 2500 ns, 6000 and 5500, 0 and 100.
  REQUIRE(observed.phases.size() == 1);
  CHECK(observed.phases[0].rank == 1);
  CHECK(observed.phases[0].initial_sync_s == Approx(2.25e-6));
  CHECK(observed.phases[0].compute_s == Approx(5.75e-6));
  CHECK(observed.phases[0].final_sync_s == Approx(0.05e-6));

  // What comes later belongs to nobody, neither between observations nor in the next.
  end_channel(open);
  CHECK(kernel(0, 1) == nullptr);
  nccl_observation().start();
  void* const next = kernel(3, 1);
  phase(partial, 1, 0, 1000);
  end_channel(partial);
  phase(next, 1, 0, 4000);
  end_channel(next);
  const Observed second = nccl_observation().end();
  REQUIRE(second.phases.size() == 1);
  CHECK(second.phases[0].compute_s == Approx(4e-6));
  nccl_observation().attach(&mask, nullptr, 0);
}

TEST_CASE("The tuner inside copies the predictions while observed and changes nothing", "[nccl][plugins]") {
  void* const self = dlopen(nullptr, RTLD_NOW);
  auto& v5 = find_plugin<TunerV5>(self, "ncclTunerPlugin_v5");
  auto& v4 = find_plugin<TunerV4>(self, "ncclTunerPlugin_v4");
  CHECK(find_plugin<TunerV6>(self, "ncclTunerPlugin_v6").get_chunk_size == nullptr);
  void* context = &context;
  REQUIRE(v5.init(&context, 1, 4, 1, nullptr, nullptr, nullptr) == kNcclSuccess);
  CHECK(context == nullptr);
  REQUIRE(v4.init(4, 1, nullptr, &context) == kNcclSuccess);
  Costs costs;
  REQUIRE(v5.get_coll_info(nullptr, 4, 64, 1, costs.table(), 7, 3, 0, &costs.channels) == kNcclSuccess);
  nccl_observation().start();
  REQUIRE(v4.get_coll_info(nullptr, 4, 64, 1, costs.table(), 7, 3, 0, &costs.channels) == kNcclSuccess);
  const Observed observed = nccl_observation().end();
  CHECK(costs.times == Costs().times);
  CHECK(costs.channels == 0);
  REQUIRE(observed.predictions.size() == 1);
  CHECK(observed.predictions[0].function == 4);
  CHECK(observed.predictions[0].nprotocols == 3);
  CHECK(std::equal(costs.times.begin(), costs.times.end(), observed.predictions[0].times_us.begin()));
  CHECK(v5.finalize(nullptr) == kNcclSuccess);
  CHECK(v4.destroy(nullptr) == kNcclSuccess);
}

TEST_CASE("The table's first usable match is chosen, with its channels", "[nccl][plugins]") {
  if (no_library()) return;
  LoadedTuner tuner(
      "allreduce,0,999,ring,ll128,8,-1,-1\n"   // negative though not -1: passed over
      "allreduce,0,999,nvls,simple,8,-1,-1\n"  // not usable
      "allreduce,100,999,tree,simple,5,-1,-1\n"
      "allreduce,0,1000,ring,simple,-1,-1,-1\n"
      "broadcast,0,1000,ring,ll,64,2,16\n"
      "reduce,0,1000,ring,ll,64,1,16\n"  // one node
      "reduce,0,1000,ring,ll,64,2,8\n"   // eight ranks
      "allgather,0,1000,ring,ll,2,-1,-1,3\n"
      "allgather,0,1000,ring,simple,2,-1,-1,-1,1\n");
  REQUIRE(g_log.size() == 1);
  CHECK_THAT(g_log[0], Contains("7 of 9 rules are for 16 ranks on 2 nodes"));

  const Costs tree = tuner.ask(4, 100);
  CHECK(tree.times[2] == 0);
  CHECK(tree.times[5] == 10);
  CHECK(tree.times[4] == -1024);
  CHECK(tree.channels == 5);
  const Costs ring = tuner.ask(4, 1000);
  CHECK(ring.times[5] == 0);
  CHECK(ring.channels == 0);
  CHECK(tuner.ask(4, 99).times[5] == 0);
  CHECK(tuner.left_alone(4, 1001));
  CHECK(tuner.ask(0, 1000).channels == 64);
  CHECK(tuner.left_alone(1, 10));
  CHECK(tuner.ask(2, 10, 3).times[3] == 0);
  CHECK(tuner.ask(2, 10, 1, 1).times[5] == 0);
  CHECK(tuner.left_alone(2, 10));
  CHECK(tuner.left_alone(3, 10));
  for (int beyond : {-1, 5, 8}) CHECK(tuner.left_alone(beyond, 10));

  // Each rule says once what became of it.
  int refused = 0;
  int applied = 0;
  for (const std::string& line : g_log) {
    refused += line.find("passed over") != std::string::npos;
    applied += line.find(": applied") != std::string::npos;
  }
  CHECK(refused == 2);
  CHECK(applied == 5);
}

TEST_CASE("A smaller table of NCCL's is not written beyond its end", "[nccl][plugins]") {
  if (no_library()) return;
  setenv("NCCL_TUNER_CONFIG_FILE", "unset", 1);
  LoadedTuner tuner("allreduce,0,1000,pat,simple,4,-1,-1\nallreduce,0,1000,ring,simple,4,-1,-1\n");
  void* library = dlopen(BUSBAR_TUNER_LIBRARY, RTLD_NOW);
  auto& v4 = find_plugin<TunerV4>(library, "ncclTunerPlugin_v4");
  void* context = nullptr;
  REQUIRE(v4.init(16, 2, log, &context) == kNcclSuccess);
  std::vector<float> times(6 * 3, 1.0f);
  int channels = 0;
  REQUIRE(v4.get_coll_info(context, 4, 10, 1, reinterpret_cast<TunerCosts>(times.data()), 6, 3, 0, &channels) ==
          kNcclSuccess);
  CHECK(times[5] == 0);
  CHECK(channels == 4);
  CHECK(v4.destroy(context) == kNcclSuccess);
  dlclose(library);
}

TEST_CASE("Whatever is wrong with the table, NCCL's choice stands and one line says why", "[nccl][plugins]") {
  if (no_library()) return;
  const auto refused = [](LoadedTuner& tuner, const std::string& why) {
    CHECK(tuner.left_alone(4, 10));
    REQUIRE(g_log.size() == 1);
    CHECK_THAT(g_log[0], Contains("2 busbar tuner: NCCL's own choices stand") && Contains(why));
  };
  {
    LoadedTuner malformed("allreduce,0,1000,ring,simple,4,-1,-1\nallreduce,0,1000,rong,simple,4,-1,-1\n");
    refused(malformed, "table.csv:2: the algorithm must be");
  }
  {
    LoadedTuner header("collective,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks\n");
    refused(header, ":1: the collective must be");
  }
  {
    LoadedTuner huge_line(std::string(1 << 20, ','));
    refused(huge_line, "more than 10 fields");
  }
  {
    LoadedTuner huge(std::string((1 << 24) + 1, '#'));
    refused(huge, "longer than 16 MiB");
  }
  {
    LoadedTuner unset;
    refused(unset, "NCCL_TUNER_CONFIG_FILE is not set");
  }
  for (const char* path : {"/nonexistent/table.csv", "/"}) {
    setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
    LoadedTuner missing;
    refused(missing, "cannot read /");
  }
  {
    LoadedTuner empty("");
    CHECK(empty.left_alone(4, 10));
  }
}
