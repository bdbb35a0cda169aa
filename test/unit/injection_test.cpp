// Catches: --inject that breaks something else than it says (another rank, another operation, twice), a record of an
// operation that was never entered, a misspelt fault taken for another, and --paranoid that blames the healthy.

#include "common/base/error.h"
#include "common/measure/injected_backend.h"
#include "common/measure/observed_steps.h"
#include "null_backend.h"

#include <catch2/catch.hpp>

#include <vector>

using namespace busbar;
using Catch::Matchers::Contains;

namespace {

std::string complaint(const char* text) {
  try {
    parse_injection(text);
  } catch (const Error& e) {
    REQUIRE(e.code() == ExitCode::bad_config);
    return e.what();
  }
  return "";
}

/// Remembers what it was told to call.
struct Recording : NullBackend {
  using NullBackend::NullBackend;
  void enqueue(int, const Operation& op, std::span<const Buffers>) override { calls->push_back(op); }
  std::optional<std::string> why_unsupported(const Operation& op) const override {
    if (op.dtype == DType::int32) return "not here";
    return std::nullopt;
  }
  std::vector<Operation>* calls = nullptr;
};

Operation all_reduce_of(std::size_t count) {
  return {&kAllReduce, {count, 4, 4, 0, nullptr}, DType::float32, Op::sum, false};
}

/// What reaches the library in six calls of all_reduce of 100 float sum, and what the record counts then.
struct Outcome {
  std::vector<Operation> calls;
  std::uint64_t entered = 0;
};

Outcome six_calls(const char* fault, int process = 0) {
  Outcome outcome;
  LaneCounter counter;
  auto recording = std::make_unique<Recording>(4);
  recording->calls = &outcome.calls;
  const Injector injector(parse_injection(fault), process);
  const std::unique_ptr<Backend> backend = injector.around(std::move(recording));
  backend->count_operations({&counter, 1});
  const std::vector<Buffers> buffers(1);
  for (int i = 0; i < 6; ++i) backend->launch(0, all_reduce_of(100), buffers);
  outcome.entered = counter.entered;
  return outcome;
}

AnnouncedCall call_of(int rank, std::string host, std::vector<std::string> arguments, int group = 0) {
  return {rank, std::move(host), group, std::move(arguments)};
}

}  // namespace

TEST_CASE("a fault is a rank, an operation and a kind, in any order", "[injection]") {
  CHECK(parse_injection("rank=3,op=42,kind=skip") == Injection{3, 42, Injection::Kind::skip, 0});
  CHECK(parse_injection("kind=late:1500ms,op=1,rank=0") == Injection{0, 1, Injection::Kind::late, 1.5});
  CHECK(parse_injection("rank=3,op=42,kind=double").kind == Injection::Kind::doubled);
  for (const char* kind :
       {"skip", "count", "dtype", "op", "stop", "kill", "crash", "flip", "drop", "double", "shift", "overrun"}) {
    INFO(kind);
    CHECK(name(parse_injection("rank=0,op=1,kind=" + std::string(kind)).kind) == kind);
  }
  CHECK(describe(parse_injection("rank=3,op=42,kind=late:5s")) == "rank 3 will come 5 s late to its operation 42");
}

TEST_CASE("a fault that is none is an error that names what there is", "[injection]") {
  CHECK(complaint("rank=3,op=42") == "kind= is missing: rank=3,op=42,kind=skip");
  CHECK(complaint("op=42,kind=skip") == "rank= is missing: rank=3,op=42,kind=skip");
  CHECK_THAT(complaint(""), Contains("is not KEY=VALUE"));
  CHECK_THAT(complaint("skip"), Contains("'skip' is not KEY=VALUE"));
  CHECK(complaint("rnak=3,op=42,kind=skip") == "'rnak' is not a key; did you mean rank?");
  CHECK(complaint("host=3,op=42,kind=skip") == "'host' is not a key; choose from: rank op kind");
  CHECK(complaint("rank=3,rank=4,op=42,kind=skip") == "rank is given twice");
  CHECK_THAT(complaint("rank=-1,op=42,kind=skip"), Contains("'-1' is not a whole number of at least 0"));
  CHECK_THAT(complaint("rank=3,op=0,kind=skip"), Contains("'0' is not a whole number"));
  CHECK(complaint("rank=3,op=42,kind=skpi") == "'skpi' is not a kind; did you mean skip?");
  CHECK(
      complaint("rank=3,op=42,kind=explosion") ==
      "'explosion' is not a kind; choose from: skip late:SECONDS count dtype op stop kill crash flip drop double shift "
      "overrun");
  CHECK(complaint("rank=3,op=42,kind=late") == "late needs a time: late:5s");
  CHECK_THAT(complaint("rank=3,op=42,kind=late:soon"), Contains("'soon'"));
  CHECK_THAT(complaint("rank=3,op=42,kind=skip:5s"), Contains("only late takes a time"));
}

TEST_CASE("a skipped operation is neither called nor counted, and only one is", "[injection]") {
  const Outcome outcome = six_calls("rank=0,op=3,kind=skip");
  CHECK(outcome.calls.size() == 5);
  CHECK(outcome.entered == 5);
}

TEST_CASE("one call has other arguments, and the record can tell beforehand", "[injection]") {
  const Outcome count = six_calls("rank=0,op=3,kind=count");
  REQUIRE(count.calls.size() == 6);
  CHECK(count.entered == 6);
  for (int i = 0; i < 6; ++i) CHECK(count.calls[i].problem.count == (i == 2 ? 99u : 100u));
  // int32 is refused, uint32 the next of that width.
  CHECK(six_calls("rank=0,op=1,kind=dtype").calls[0].dtype == DType::uint32);
  CHECK(six_calls("rank=0,op=6,kind=op").calls[5].op == Op::max);

  LaneCounter counter;
  const Injector injector(parse_injection("rank=0,op=3,kind=count"), 0);
  const std::unique_ptr<Backend> backend = injector.around(std::make_unique<NullBackend>(4));
  backend->count_operations({&counter, 1});
  const Operation op = all_reduce_of(100);
  CHECK(backend->as_called(op, 2).problem.count == 100);
  CHECK(backend->as_called(op, 3).problem.count == 99);
  const std::vector<Buffers> buffers(1);
  for (int i = 0; i < 2; ++i) backend->launch(0, op, buffers);
  CHECK(backend->as_called(op, 1).problem.count == 99);
  backend->launch(0, op, buffers);
  CHECK(backend->as_called(op, 10).problem.count == 100);
}

TEST_CASE("a late rank waits once, before its operation, which its record has not entered", "[injection]") {
  std::vector<Operation> calls;
  LaneCounter counter;
  auto recording = std::make_unique<Recording>(4);
  recording->calls = &calls;
  int waits = 0;
  const auto wait = [&](double seconds) {
    ++waits;
    CHECK(seconds == 0.4);
    CHECK(calls.size() == 2);
    CHECK(counter.entered == 2);
  };
  const Injector injector(parse_injection("rank=0,op=3,kind=late:400ms"), 0, wait);
  const std::unique_ptr<Backend> backend = injector.around(std::move(recording));
  backend->count_operations({&counter, 1});
  const std::vector<Buffers> buffers(1);
  for (int i = 0; i < 6; ++i) backend->launch(0, all_reduce_of(100), buffers);
  CHECK(waits == 1);
  CHECK(calls.size() == 6);
  CHECK(counter.entered == 6);
}

TEST_CASE("only the process of the rank is broken", "[injection]") {
  CHECK(six_calls("rank=2,op=3,kind=skip", 2).calls.size() == 5);
  CHECK(six_calls("rank=2,op=3,kind=skip", 1).calls.size() == 6);
}

TEST_CASE("the communicators of a process share the fault and the numbers", "[injection]") {
  LaneCounter counter;
  std::vector<Operation> calls[2];
  const Injector injector(parse_injection("rank=0,op=2,kind=skip"), 0);
  std::unique_ptr<Backend> backends[2];
  for (int i = 0; i < 2; ++i) {
    auto recording = std::make_unique<Recording>(4);
    recording->calls = &calls[i];
    backends[i] = injector.around(std::move(recording));
    backends[i]->count_operations({&counter, 1});
  }
  const std::vector<Buffers> buffers(1);
  for (int i = 0; i < 4; ++i) backends[i % 2]->launch(0, all_reduce_of(100), buffers);
  CHECK(calls[0].size() == 2);
  CHECK(calls[1].size() == 1);
}

TEST_CASE("a rank that is not there and a reduction that is none are refused", "[injection]") {
  const Injector rank(parse_injection("rank=4,op=2,kind=skip"), 0);
  CHECK_THROWS_WITH(rank.check(4, kAllReduce), "--inject: there is no rank 4: the job has ranks 0 to 3");
  CHECK_NOTHROW(rank.check(5, kAllReduce));
  const Injector op(parse_injection("rank=0,op=2,kind=op"), 0);
  CHECK_THROWS_WITH(op.check(4, kBroadcast), Contains("broadcast does not"));
  CHECK_NOTHROW(op.check(4, kAllReduce));
  const Injector none(std::nullopt, 0);
  CHECK_NOTHROW(none.check(1, kBroadcast));
  CHECK(none.remarks().empty());
  REQUIRE(rank.remarks().size() == 1);
  CHECK_THAT(rank.remarks()[0], Contains("WARNING: rank 4 will skip its operation 2"));
}

TEST_CASE("who calls otherwise than the majority is named, with what differs", "[paranoid]") {
  const std::vector<std::string> right{"all_reduce", "count 100", "type float"};
  std::vector<AnnouncedCall> calls{call_of(0, "a", right), call_of(1, "a", right), call_of(2, "b", right)};
  CHECK(deviation(calls, "the check").empty());
  calls.push_back(call_of(3, "b", {"all_reduce", "count 99", "type float"}));
  CHECK(deviation(calls, "the check") ==
        "ARG_MISMATCH in the check: rank 3 on b is about to call with count 99; the other 3 with count 100 (found by "
        "--paranoid before anybody called)");
  calls[0].arguments = {"all_reduce", "count 99", "type float"};
  calls.push_back(call_of(4, "c", right));
  CHECK_THAT(deviation(calls, "x"), Contains("ranks 0,3 on a, b are about to call with count 99; the other 3 with"));
  calls[1].arguments = {"all_reduce", "count 100", "type int32"};
  CHECK_THAT(deviation(calls, "x"), Contains("there is no majority"));
}

TEST_CASE("groups of a split are not compared with each other", "[paranoid]") {
  std::vector<AnnouncedCall> calls{call_of(0, "a", {"count 1"}, 0), call_of(1, "a", {"count 2"}, 1),
                                   call_of(2, "a", {"count 1"}, 0), call_of(3, "a", {"count 2"}, 1),
                                   call_of(4, "a", {"count 1"}, 0)};
  CHECK(deviation(calls, "x").empty());
  calls[4].arguments = {"count 3"};
  CHECK_THAT(deviation(calls, "x"), Contains("rank 4 on a is about to call with count 3; the other 2 with count 1"));
}
