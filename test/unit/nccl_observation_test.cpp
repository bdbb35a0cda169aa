// Catches: a row that names an algorithm that NCCL did not report, a symmetric kernel's line misread, a prediction
// taken from the wrong entry or where NCCL's number means something else, and a plugin or log of the user's pushed
// aside.

#include "common/backends/nccl/nccl_observation.h"

#include <catch2/catch.hpp>

#include <map>
#include <string>

using namespace busbar;
using Catch::Contains;

namespace {

Operation operation(const char* collective, int nranks = 4, DType dtype = DType::float32) {
  Operation op;
  op.collective = find_collective(collective);
  op.problem.nranks = nranks;
  op.dtype = dtype;
  return op;
}

LaunchedTask collective(const char* function, const char* algorithm, const char* protocol, int channels) {
  return {false, function, algorithm, protocol, channels};
}

LaunchedTask transfer(const char* function, int channels) { return {true, function, "", "", channels}; }

/// Seven algorithms, three protocols, all unusable but for the given entries.
PredictedTimes predictions(int function, std::map<std::pair<int, int>, float> times_us) {
  PredictedTimes p{function, 3, std::vector<float>(21, -1)};
  for (const auto& [at, time] : times_us) p.times_us[static_cast<std::size_t>(at.first * 3 + at.second)] = time;
  return p;
}

/// Every setting that is not named is unset.
ReadNcclSetting settings(std::map<std::string, std::string> values) {
  return [values](const char* name) {
    const auto found = values.find(name);
    return found != values.end() ? std::optional(found->second) : std::nullopt;
  };
}

Config show(bool prediction = false) {
  Config config;
  config.show_algo = true;
  config.show_prediction = prediction;
  return config;
}

// As NCCL 2.28.9 writes it.
const std::string kSymmetricLine =
    "node1:4711:4712 [0] NCCL INFO AllReduce [Symmetric]: 4096 Bytes -> Kernel AllReduce_AGxLL_R nchannels 2 nthreads "
    "512 "
    "nWorks 1\n";
const std::string kRingLine =
    "node1:4711:4712 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}\n";

}  // namespace

TEST_CASE("A row shows the collective's own event", "[nccl][show_algo]") {
  const ShownAlgorithm shown =
      shown_algorithm(operation("all_reduce"), {{collective("AllReduce", "TREE", "LL", 2)}, {}}, "");
  CHECK(shown.algorithm == "TREE");
  CHECK(shown.protocol == "LL");
  CHECK(shown.channels == "2");
  CHECK_FALSE(shown.predicted_s.has_value());
  // CollNet tasks leave the number of channels unset.
  CHECK(shown_algorithm(operation("reduce"), {{collective("Reduce", "COLLNET_CHAIN", "SIMPLE", 0)}, {}}, "").channels ==
        "-");
}

TEST_CASE("What NCCL does not tell, or tells twice differently, is unknown", "[nccl][show_algo]") {
  const auto algorithm = [](const char* name, std::vector<LaunchedTask> tasks, const std::string& log = "") {
    return shown_algorithm(operation(name), {std::move(tasks), {}}, log).algorithm;
  };
  CHECK(algorithm("all_reduce", {}) == "unknown");
  CHECK(algorithm("alltoall", {}) == "unknown");
  CHECK(algorithm("all_reduce", {collective("AllGather", "RING", "LL", 1)}) == "unknown");
  CHECK(algorithm("sendrecv", {collective("AllGather", "RING", "LL", 1)}) == "unknown");
  CHECK(algorithm("all_reduce", {collective("AllReduce", "RING", "LL", 1), collective("AllReduce", "TREE", "LL", 1)}) ==
        "unknown");
  CHECK(algorithm("all_gather", {}, kSymmetricLine) == "unknown");
}

TEST_CASE("Transfers are p2p with their channels, and nothing more", "[nccl][show_algo]") {
  const ShownAlgorithm same =
      shown_algorithm(operation("alltoall"), {{transfer("Send", 4), transfer("Recv", 4)}, {}}, "");
  CHECK(same.algorithm == "p2p");
  CHECK(same.protocol == "-");
  CHECK(same.channels == "4");
  CHECK(shown_algorithm(operation("hypercube"), {{transfer("Send", 8), transfer("Recv", 1)}, {}}, "").channels ==
        "1-8");
}

TEST_CASE("Copy engines are named where all of it is theirs", "[nccl][show_algo]") {
  const LaunchedTask copy{false, "AlltoAll", "", "", 0, true};
  CHECK(shown_algorithm(operation("alltoall"), {{copy, copy}, {}}, "").algorithm == "copy_engines");
  CHECK(shown_algorithm(operation("alltoall"), {{copy, transfer("Send", 4)}, {}}, "").algorithm == "unknown");
}

TEST_CASE("Symmetric kernels come from the log", "[nccl][show_algo]") {
  CHECK(symmetric_kernels(kRingLine + kSymmetricLine) ==
        std::vector<SymmetricKernel>{{"AllReduce", "AllReduce_AGxLL_R", 2}});
  // A stamp in front, and no newline at the end.
  CHECK(
      symmetric_kernels("[2026-11-21 10:00:00.123456] h:1:2 [3] NCCL INFO ReduceScatter [Symmetric]: 8 Bytes -> Kernel "
                        "ReduceScatter_LDMC nchannels 16 nthreads 512 nWorks 1") ==
      std::vector<SymmetricKernel>{{"ReduceScatter", "ReduceScatter_LDMC", 16}});
  CHECK(symmetric_kernels(kRingLine).empty());
  CHECK(symmetric_kernels(kSymmetricLine.substr(0, 60)).empty());
  CHECK(symmetric_kernels("x NCCL INFO AllReduce [Symmetric]: 8 Bytes -> Kernel K nchannels many nthreads 1").empty());
  CHECK(symmetric_kernels(std::string("\0\0\n\n", 4)).empty());

  const ShownAlgorithm shown = shown_algorithm(operation("all_reduce"), {}, kSymmetricLine);
  CHECK(shown.algorithm == "AllReduce_AGxLL_R");
  CHECK(shown.protocol == "sym");
  CHECK(shown.channels == "2");
  CHECK(shown_algorithm(operation("all_reduce"), {{collective("AllReduce", "RING", "LL", 4)}, {}}, kSymmetricLine)
            .algorithm == "RING");
}

TEST_CASE("The prediction is that of what ran, on the slowest rank", "[nccl][show_algo]") {
  const Observed observed{{collective("AllReduce", "NVLS_TREE", "SIMPLE", 16)},
                          {predictions(4, {{{5, 2}, 30.5f}, {{1, 2}, 3.0f}}), predictions(4, {{{5, 2}, 31.5f}}),
                           predictions(2, {{{5, 2}, 99.0f}})}};
  const auto predicted = shown_algorithm(operation("all_reduce"), observed, "").predicted_s;
  REQUIRE(predicted.has_value());
  CHECK(*predicted == Approx(31.5e-6));
}

TEST_CASE("There is no prediction where NCCL has none", "[nccl][show_algo]") {
  const auto predicted = [](const Operation& op, const PredictedTimes& times) {
    return shown_algorithm(op, {{collective("AllReduce", "RING", "LL", 4)}, {times}}, "").predicted_s.has_value();
  };
  const auto ring_ll = predictions(4, {{{1, 0}, 8.0f}});
  CHECK(predicted(operation("all_reduce"), ring_ll));
  CHECK_FALSE(predicted(operation("all_reduce"), predictions(4, {{{0, 0}, 8.0f}})));
  CHECK_FALSE(predicted(operation("all_reduce"), predictions(3, {{{1, 0}, 8.0f}})));
  CHECK_FALSE(predicted(operation("all_reduce"), {4, 3, {1.0f, 1.0f}}));
  // The times of fp8 rings beyond 8 ranks are multiplied so that they come last.
  CHECK(predicted(operation("all_reduce", 8, DType::f8e4m3), ring_ll));
  CHECK_FALSE(predicted(operation("all_reduce", 9, DType::f8e5m2), ring_ll));
}

TEST_CASE("A group of broadcasts or reductions shows what they ran, and no prediction of one of them",
          "[nccl][show_algo]") {
  const auto shown = [](const char* name, std::vector<LaunchedTask> tasks) {
    const auto ring_ll = predictions(0, {{{1, 0}, 8.0f}});
    return shown_algorithm(operation(name), {std::move(tasks), {ring_ll}}, "");
  };
  const LaunchedTask broadcast = collective("Broadcast", "RING", "LL", 2);
  CHECK(shown("broadcast", {broadcast}).predicted_s.has_value());
  CHECK(shown("all_gatherv", {broadcast, broadcast}).algorithm == "RING");
  CHECK_FALSE(shown("all_gatherv", {broadcast, broadcast}).predicted_s.has_value());
  CHECK(shown("all_gatherv", {broadcast, collective("Broadcast", "RING", "SIMPLE", 4)}).algorithm == "unknown");
  CHECK(shown("reduce_scatterv", {collective("Reduce", "RING", "LL", 2)}).algorithm == "RING");
  CHECK(shown("gatherv", {transfer("Send", 2)}).algorithm == "p2p");
}

TEST_CASE("Only between begin and end are events wanted and kept", "[nccl][show_algo]") {
  NcclObservation observation;
  observation.add(LaunchedTask{});
  observation.start();  // without NCCL: nothing to switch
  CHECK(observation.end().tasks.empty());

  int mask = 77;
  observation.attach(&mask, nullptr, 2 | 4096);
  CHECK(mask == 0);
  observation.add(LaunchedTask{});
  observation.start();
  CHECK(mask == (2 | 4096));
  observation.add(collective("AllReduce", "RING", "LL", 1));
  observation.add(PredictedTimes{});
  const Observed observed = observation.end();
  CHECK(mask == 0);
  CHECK(observed.tasks.size() == 1);
  CHECK(observed.predictions.size() == 1);
  observation.start();
  CHECK(observation.end().tasks.empty());
  observation.touch_log();
}

TEST_CASE("Nothing is set up unless it is asked for", "[nccl][show_algo]") {
  Config config;
  config.local_register = 2;
  CHECK(plan_observation(config, settings({}), "") == ObservationSetup{});
}

TEST_CASE("The profiler and, on request, the tuner of the executable are chosen", "[nccl][show_algo]") {
  const ProcessSetting profiler{"NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", true};
  const ProcessSetting tuner{"NCCL_TUNER_PLUGIN", "STATIC_PLUGIN", true};
  CHECK(plan_observation(show(), settings({}), "") == ObservationSetup{{profiler}, false, false, {}});
  CHECK(plan_observation(show(true), settings({}), "") == ObservationSetup{{profiler, tuner}, false, false, {}});
  // Set by us for an earlier communicator of the process.
  CHECK(plan_observation(show(true), settings({{"NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"}}), "").settings.size() == 2);
}

TEST_CASE("The user's plugins stay, and a remark says what that costs", "[nccl][show_algo]") {
  const auto remark_of = [](const Config& config, std::map<std::string, std::string> env, const std::string& tuner) {
    const ObservationSetup setup = plan_observation(config, settings(std::move(env)), tuner);
    for (const ProcessSetting& s : setup.settings) CHECK(s.name == "NCCL_PROFILER_PLUGIN");
    return setup.remarks.size() == 1 ? setup.remarks.front() : std::to_string(setup.remarks.size()) + " remarks";
  };
  CHECK_THAT(remark_of(show(true), {{"NCCL_PROFILER_PLUGIN", "theirs"}}, ""), Contains("NCCL_PROFILER_PLUGIN=theirs"));
  CHECK(plan_observation(show(true), settings({{"NCCL_PROFILER_PLUGIN", "none"}}), "").settings.empty());
  CHECK_THAT(remark_of(show(true), {{"NCCL_TUNER_PLUGIN", "/x/t.so"}}, ""), Contains("NCCL_TUNER_PLUGIN=/x/t.so"));
  CHECK_THAT(remark_of(show(true), {}, "libnccl-net.so"), Contains("libnccl-net.so"));
  Config with_policy = show(true);
  with_policy.cta_policy = 1;
  CHECK_THAT(remark_of(with_policy, {}, ""), Contains("-x"));
  // Without --show-prediction nobody's tuner matters.
  CHECK(plan_observation(show(), settings({{"NCCL_TUNER_PLUGIN", "/x/t.so"}}), "").remarks.empty());
}

TEST_CASE("NCCL's log is read for -R 2 and only where it is free", "[nccl][show_algo]") {
  Config config = show();
  CHECK_FALSE(plan_observation(config, settings({}), "").tuning_log);
  config.local_register = 1;
  CHECK_FALSE(plan_observation(config, settings({}), "").tuning_log);
  config.local_register = 2;
  CHECK(plan_observation(config, settings({}), "").tuning_log);
  for (const char* variable : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
    const ObservationSetup setup = plan_observation(config, settings({{variable, "X"}}), "");
    CHECK_FALSE(setup.tuning_log);
    REQUIRE(setup.remarks.size() == 1);
    CHECK_THAT(setup.remarks.front(), Contains(std::string(variable) + "=X"));
  }
}

TEST_CASE("The log of an earlier communicator of the process is shared", "[nccl][show_algo]") {
  Config config = show();
  config.local_register = 2;
  const ObservationSetup setup = plan_observation(
      config,
      settings({{"NCCL_DEBUG", "WARN"}, {"NCCL_DEBUG_SUBSYS", "TUNING"}, {"NCCL_DEBUG_FILE", "/proc/self/fd/9"}}), "");
  CHECK(setup.tuning_log);
  CHECK(setup.remarks.empty());
}

TEST_CASE("A configuration file of NCCL counts as the user's word", "[nccl][show_algo]") {
  const std::string file =
      "# NCCL_DEBUG=WARN\nNCCL_DEBUGGER=x\nNCCL_DEBUG=INFO\nNCCL_DEBUG=TRACE\nnothing\nNCCL_ALGO=\n";
  CHECK(conf_file_value(file, "NCCL_DEBUG") == "INFO");
  CHECK(conf_file_value(file, "NCCL_ALGO") == "");
  CHECK_FALSE(conf_file_value(file, "NCCL_PROTO").has_value());
  CHECK_FALSE(conf_file_value(file, "nothing").has_value());
}

TEST_CASE("NCCL's log of creation is read where nobody else claims it", "[nccl][observation]") {
  Config config;
  config.init_phases = true;
  const ObservationSetup free = plan_observation(config, settings({}), "");
  CHECK(free.init_log);
  CHECK(free.settings.empty());
  CHECK(free.remarks.empty());
  const ObservationSetup claimed = plan_observation(config, settings({{"NCCL_DEBUG", "WARN"}}), "");
  CHECK_FALSE(claimed.init_log);
  REQUIRE(claimed.remarks.size() == 1);
  CHECK_THAT(claimed.remarks[0], Contains("phases of creation are unknown") && Contains("NCCL_DEBUG=WARN"));
}
