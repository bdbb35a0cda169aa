// Would show: a call that is counted several times because a trace has it several times, sizes and times that lose
// digits, a step's call in its neighbor, and a trace that ends the program instead of a sentence.

#include "common/base/error.h"
#include "common/base/text.h"
#include "workload_fixture.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Catch::Contains;

TEST_CASE("a call is counted once, with its kernel's time and step", "[workload][kineto]") {
  // 5, 10 and 15 us: a step of 10 us, another of 20; computing 12 to 16, communication 14 to 20.
  const std::string events = kineto_call("allreduce", 7, 11, 256, 256) + "," +
                             kineto_event("cpu_op", "c10d::allreduce_", 10.5, 8, R"("External id": 6)") + "," +
                             kineto_event("user_annotation", "nccl:all_reduce", 11.5, 4, R"("External id": 8)") + "," +
                             kineto_call("wait", 9, 12, 256, 256) + "," + kineto_call("barrier", 9, 12, 1, 1) + "," +
                             kineto_event("user_annotation", "nccl:barrier", 12, 4, "") + "," + kineto_step(3, 10, 10) +
                             "," + kineto_step(4, 20, 20) + "," + kineto_kernel("sgemm", 1, 12, 4) + "," +
                             kineto_kernel("ncclDevKernel_AllReduce_Sum_f32", 7, 14, 6) + "," +
                             kineto_event("gpu_user_annotation", "nccl:all_reduce", 14, 6, R"("External id": 8)");
  const TraceRank rank = kineto_rank(kineto_trace(1, events));
  CHECK(rank.rank == 1);
  CHECK(rank.nranks == 2);
  REQUIRE(rank.calls.size() == 1);
  CHECK(rank.calls[0].nbytes == 1024);
  CHECK(rank.calls[0].time_ns == 6000);
  CHECK(rank.calls[0].exposed_ns == 4000);
  CHECK(rank.calls[0].step == 0);
  CHECK(rank.operations[0].call == CommKind::all_reduce);
  CHECK(rank.operations[0].dtype == "float");
  CHECK(rank.groups[0].ranks == std::vector<int>{0, 1});
  CHECK(rank.left_out.at("wait") == 1);
  CHECK(rank.left_out.at("barrier") == 1);  // also an annotation
  REQUIRE(rank.steps.size() == 2);
  CHECK(rank.steps[0].computing_s == Approx(4e-6));
  CHECK(rank.steps[0].overlapped_s == Approx(2e-6));
  CHECK(rank.steps[0].exposed_s == Approx(4e-6));
  CHECK(rank.steps[0].idle_s == Approx(2e-6));
  CHECK(rank.steps[1].idle_s == Approx(20e-6));
  CHECK(rank.steps[1].calls == 0);
}

TEST_CASE("an old trace has the output in the operation around the call, in either order", "[workload][kineto]") {
  const std::string call = kineto_event("user_annotation", "nccl:_all_gather_base", 11, 4,
                                        R"("Input Dims": [[4, 8]], "Input type": ["c10::Half"])");
  const std::string around =
      kineto_event("cpu_op", "c10d::_allgather_base_", 10, 8,
                   R"("Input Dims": [[32, 8], [4, 8], []], "Input type": ["c10::Half", "c10::Half", ""])");
  for (const std::string& events : {call + "," + around, around + "," + call}) {
    const TraceRank rank = kineto_rank(kineto_trace(0, events));
    REQUIRE(rank.calls.size() == 1);
    const TraceCallKey& key = rank.operations[rank.calls[0].operation];
    CHECK(key.call == CommKind::all_gather);
    CHECK(key.in_bytes == 64);
    CHECK(key.out_bytes == 512);
    CHECK(rank.groups[key.group].size == 8);
  }
  // One that begins later is not around it.
  const std::string later = kineto_event("cpu_op", "c10d::_allgather_base_", 12, 20,
                                         R"("Input Dims": [[32, 8]], "Input type": ["c10::Half"])");
  CHECK(kineto_rank(kineto_trace(0, later + "," + call)).operations[0].out_bytes == std::nullopt);
  // Of another thread: not around it.
  const TraceRank rank =
      kineto_rank(kineto_trace(0, around + "," +
                                      kineto_event("user_annotation", "nccl:_all_gather_base", 11, 4,
                                                   R"("Input Dims": [[4]], "Input type": ["float"])", 2)));
  CHECK(rank.operations[rank.calls[0].operation].out_bytes == std::nullopt);
}

TEST_CASE("steps of several numberings: the outer ones count, and one number may be there twice",
          "[workload][kineto]") {
  const auto step_names = [](const std::string& events) {
    std::string names;
    for (const WorkloadStep& step : kineto_rank(kineto_trace(0, events + kineto_call("allreduce", 7, 11, 4, 4))).steps)
      names += fmt::format("{} {:.0f} us; ", step.name, 1e6 * step.time_s);
    return names;
  };
  CHECK(step_names(kineto_step(5, 10, 10) + "," + kineto_step(105, 12, 5) + "," + kineto_step(6, 20, 10) + ",") ==
        "ProfilerStep#5 10 us; ProfilerStep#6 10 us; ");
  CHECK(step_names(kineto_step(105, 10, 5) + "," + kineto_step(5, 10, 10) + ",") == "ProfilerStep#5 10 us; ");
  CHECK(step_names(kineto_step(0, 10, 10) + "," + kineto_step(0, 40, 10) + ",") ==
        "ProfilerStep#0 10 us; ProfilerStep#0 10 us; ");
}

TEST_CASE("a long trace has the same steps, in whatever order it was written", "[workload][kineto]") {
  // 20 steps of 100 us: computing 0 to 40, communication 30 to 60; a picture of one.
  std::vector<std::string> markers, calls, kernels, by_time;
  for (int i = 0; i < 20; ++i) {
    const double at = 1000 + 100 * i;
    markers.push_back(kineto_step(i, at, 100) + ",");
    calls.push_back(kineto_call("allreduce", 100 + i, at + 5, 256, 256) + ",");
    kernels.push_back(kineto_kernel("sgemm", 1, at, 40) + "," + kineto_kernel("ncclKernel", 100 + i, at + 30, 30) +
                      ",");
    by_time.insert(by_time.end(), {markers.back(), calls.back(), kernels.back()});
  }
  const auto rank_of = [](const std::vector<std::string>& events, std::size_t most_spans) {
    return kineto_rank(kineto_trace(0, joined_words(events, "") + kineto_event("cpu_op", "aten::mm", 1, 1, "")), "t",
                       most_spans);
  };
  std::vector<std::string> cpu_first = markers;
  cpu_first.insert(cpu_first.end(), calls.begin(), calls.end());
  cpu_first.insert(cpu_first.end(), kernels.begin(), kernels.end());
  for (const std::vector<std::string>& events : {cpu_first, by_time}) {
    for (const std::size_t most_spans : {std::size_t{8}, kMostSpans}) {
      const TraceRank rank = rank_of(events, most_spans);
      REQUIRE(rank.steps.size() == 20);
      for (const WorkloadStep& step : rank.steps) {
        CHECK(step.calls == 1);
        CHECK(step.computing_s == Approx(40e-6));
        CHECK(step.overlapped_s == Approx(10e-6));
        CHECK(step.exposed_s == Approx(20e-6));
        CHECK(step.idle_s == Approx(40e-6));
      }
      CHECK(rank.calls[7].exposed_ns == 20000);
      CHECK(rank.remarks.empty());
      CHECK(rank.lanes.time_s == Approx(100e-6));
      REQUIRE(rank.lanes.exposed.size() == 1);
      CHECK(rank.lanes.exposed[0].low == Approx(40e-6));
      CHECK(rank.lanes.exposed[0].high == Approx(60e-6));
    }
  }
  // Markers after the kernels of their steps come too late for a long trace.
  std::vector<std::string> kernels_first = kernels;
  kernels_first.insert(kernels_first.end(), calls.begin(), calls.end());
  kernels_first.insert(kernels_first.end(), markers.begin(), markers.begin() + 15);
  const TraceRank late = rank_of(kernels_first, 8);
  REQUIRE(late.steps.size() == 1);
  CHECK(late.steps[0].name == "whole trace");
  CHECK(late.steps[0].computing_s == Approx(20 * 40e-6));
  CHECK(late.lanes.time_s == 0);
  CHECK_THAT(joined_words(late.remarks), Contains("15 intervals came long after others of their time"));
}

TEST_CASE("a trace of MTIA has other categories and names", "[workload][kineto]") {
  const std::string events = kineto_step(1, 10, 20) + "," +
                             kineto_event("user_annotation", "hccl:all_reduce", 11, 4, R"("External id": 8)") + "," +
                             kineto_event("mtia_ccp_events", "fc-dtype_Float", 12, 5, R"("stream": 1)", 4) + "," +
                             kineto_event("mtia_ccp_events", "dma_request", 16, 4, R"("size": 16)", 4);
  const TraceRank rank = kineto_rank(kineto_trace(0, events));
  REQUIRE(rank.calls.size() == 1);
  CHECK(rank.operations[0].call == CommKind::all_reduce);
  CHECK(rank.operations[0].in_bytes == std::nullopt);
  CHECK_FALSE(rank.has_communication);
  CHECK(rank.steps.at(0).computing_s == Approx(5e-6));
  CHECK(rank.steps.at(0).copying_s == Approx(3e-6));
}

TEST_CASE("times are exact to the nanosecond", "[workload][kineto]") {
  CHECK(nanoseconds_of("1712195495520854.8", 1712195495520854.8) == 1712195495520854800);
  CHECK(nanoseconds_of("4458676524595.135", 4458676524595.135) == 4458676524595135);
  CHECK(nanoseconds_of("0.0019", 0.0019) == 2);
  CHECK(nanoseconds_of("1.5e3", 1.5e3) == 1500000);
  CHECK(nanoseconds_of("-1.5", -1.5) == -1500);
  CHECK(nanoseconds_of("1e300", 1e300) == INT64_MIN);
}

TEST_CASE("symmetric memory is counted apart, and unknown kernels are reported", "[workload][kineto]") {
  const std::string events =
      kineto_call("_allgather_base", 4, 10, 64, 128) + "," +
      kineto_event("cpu_op", "symm_mem::multimem_all_reduce_", 12, 2,
                   R"("External id": 5, "Input Dims": [[256], [], []], "Input type": ["c10::BFloat16", "", ""])") +
      "," + kineto_kernel("multimem_all_reduce_kernel", 5, 13, 3) + "," +
      kineto_kernel("ncclDevKernel_SendRecv", 99, 20, 5);
  const TraceRank rank = kineto_rank(kineto_trace(0, events));
  REQUIRE(rank.calls.size() == 2);
  const TraceCallKey& key = rank.operations[rank.calls[1].operation];
  CHECK(key.via == "symm_mem");
  CHECK(key.in_bytes == 512);
  CHECK(rank.calls[1].time_ns == 3000);
  std::string remarks;
  for (const std::string& remark : rank.remarks) remarks += remark + "\n";
  CHECK_THAT(remarks, Contains("1 kernel of communication (0.005 ms) belong to no recorded call"));
}

TEST_CASE("bad traces are a sentence, or a remark if something was read", "[workload][kineto]") {
  const std::string call = kineto_call("allreduce", 7, 11, 256, 256);
  const std::string whole = kineto_trace(0, call + "," + kineto_step(1, 10, 10));
  const TraceRank cut = kineto_rank(whole.substr(0, whole.size() - 30));
  CHECK(cut.calls.size() == 1);
  REQUIRE_FALSE(cut.remarks.empty());
  CHECK_THAT(cut.remarks[0], Contains("the trace ends too early"));
  const auto fails = [](const std::string& text, const std::string& with) {
    CHECK_THROWS_WITH(kineto_rank(text), Contains(with));
  };
  fails("", "trace.json: it ends too early");
  fails(whole.substr(0, 40), "ends too early");
  fails("{\"traceEvents\": [}", "is not JSON");
  fails("[1, 2]", "no list of traceEvents");
  fails("{\"a\": \"" + std::string(std::size_t{20} << 20, 'a'), "trace.json: it has too long a text");
  // Deep nesting and numbers beyond all limits are passed over.
  const std::string odd = kineto_event("cpu_op", "record_param_comms", 1e300, 5,
                                       "\"x\": " + std::string(5000, '[') + std::string(5000, ']')) +
                          "," + kineto_event("kernel", "a", 5, -7, "") + "," +
                          kineto_call("allreduce", 1, 11, INT64_MAX, -5);
  const TraceRank rank = kineto_rank(kineto_trace(0, odd));
  REQUIRE(rank.calls.size() == 1);
  CHECK(rank.operations[0].in_bytes == std::nullopt);
}
