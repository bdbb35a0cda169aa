// The bugs these would catch: communicators of different ranks taken for one because their pointers are equal, children
// of splits mixed up, a reused pointer that continues the communicator before it, ranks that began called hung although
// most files were not given, and deadlocks over two communicators that look like a late rank.

#include "unit/job_log_fixture.h"

#include <catch2/catch.hpp>

using namespace busbar;

namespace {

InitMessage split_of(int rank, int color, bool complete) {
  return {.function = "ncclCommSplit",
          .comm = 0x9000u + static_cast<unsigned>(rank),
          .rank = rank / 2,
          .nranks = 2,
          .parent = MadeUpJob::pointer(rank, 0),
          .color = color,
          .complete = complete};
}

/// The initialisation of a rank's part in a communicator of some of the ranks.
void join_part(MadeUpJob& job, JobBook& log, int rank, int part_rank, int part_size, std::uint64_t id) {
  InitMessage event;
  event.function = "ncclCommSplit";
  event.comm = MadeUpJob::pointer(rank, 1);
  event.rank = part_rank;
  event.nranks = part_size;
  event.comm_id = id;
  job.say(log, rank, event);
  event.complete = true;
  job.say(log, rank, event);
}

}  // namespace

TEST_CASE("Ranks are joined by commId and listed by what they did", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  for (int rank = 0; rank < 4; ++rank) job.start(log, rank);
  for (int rank : {0, 1, 3}) job.complete(log, rank);
  const Diagnosis told = job.conclude(log);
  REQUIRE(told.communicators.size() == 1);
  CHECK(told.communicators[0].id == "0x4d");
  CHECK_FALSE(told.communicators[0].heuristic);
  CHECK(told.communicators[0].started == std::vector<int>{0, 1, 2, 3});
  CHECK(told.communicators[0].completed == std::vector<int>{0, 1, 3});
  CHECK(told.verdict == Verdict::init_stuck);
  CHECK(says(told.sentence, "rank 2"));
  CHECK(says(told.sentence, "bootstrap"));
}

TEST_CASE("Without commId ranks are joined by size and order, and that is said", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  for (int comm : {0, 1}) job.init(log, comm, 0);
  for (int rank = 0; rank < 4; ++rank) {
    job.call(log, rank, {.count = 5}, 0);
    job.call(log, rank, {.count = rank == 3 ? 7u : 6u}, 1);
  }
  const Diagnosis told = job.conclude(log);
  REQUIRE(told.communicators.size() == 2);
  CHECK(told.communicators[0].heuristic);
  CHECK(told.verdict == Verdict::arg_mismatch);
  CHECK(says(told.sentence, "rank 3"));
  CHECK(says(told.sentence, "communicator 2"));
}

TEST_CASE("Children of a split are told apart by color", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  job.init(log);
  for (int rank = 0; rank < 4; ++rank) {
    job.say(log, rank, split_of(rank, rank % 2, false));
    job.say(log, rank, split_of(rank, rank % 2, true));
    CollCall call;
    call.op = "AllReduce";
    call.dtype = "7";
    call.redop = "0";
    call.count = rank % 2 == 0 ? 100u : 200u;  // other groups do other things
    call.comm = 0x9000u + static_cast<unsigned>(rank);
    call.nranks = 2;
    job.say(log, rank, call);
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::ok);
  CHECK(told.communicators.size() == 3);
  CHECK(told.communicators[1].child);
}

TEST_CASE("Equal groups of every host that only their calls tell of are told apart by host", "[job_log]") {
  MadeUpJob job(4);  // two nodes of two ranks
  JobBook log;
  for (int rank = 0; rank < 4; ++rank) {
    CollCall call;
    call.op = "AllGather";
    call.dtype = "7";
    call.count = rank < 2 ? 10u : 20u;
    call.comm = 0x5000u + static_cast<unsigned>(rank);
    call.nranks = 2;
    job.say(log, rank, call);
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::ok);
  CHECK(told.communicators.size() == 2);
}

TEST_CASE("A number in a part of the job is not the rank where the larger communicator's is not told", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  for (int rank = 0; rank < 3; ++rank) {
    job.start(log, rank);
    job.complete(log, rank);
  }
  join_part(job, log, 3, 1, 2, 78);
  InitTimings timings;
  timings.rank = 1;
  timings.nranks = 2;
  timings.total = 1;
  job.say(log, 3, timings);
  for (int rank = 0; rank < 4; ++rank) job.call(log, rank, {.count = rank == 3 ? 9u : 8u});
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::arg_mismatch);
  CHECK(says(told.sentence, "process node1, pid 1003"));
  CHECK(told.ranks.empty());
}

TEST_CASE("Calls without Init lines may be of any communicator of their size that lacks ranks", "[job_log]") {
  MadeUpJob job(6);
  JobBook log;
  job.init(log);
  for (int rank = 2; rank < 6; ++rank) join_part(job, log, rank, rank / 2, 3, 100 + static_cast<unsigned>(rank % 2));
  for (int rank = 0; rank < 6; ++rank) {
    CollCall call;
    call.op = "AllReduce";
    call.dtype = "7";
    call.count = rank % 2 == 0 ? 10u : 20u;
    call.comm = MadeUpJob::pointer(rank, 1);
    call.nranks = 3;
    job.say(log, rank, call);
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::ok);
  CHECK(says(told.missing, "cannot be told apart"));
}

TEST_CASE("A pointer that is used again is another communicator", "[job_log]") {
  MadeUpJob job(2);
  JobBook log;
  for (std::uint64_t id : {1u, 2u, 3u}) {
    job.init(log, 0, id);
    for (int rank = 0; rank < 2; ++rank) {
      job.call(log, rank, {.count = id});
      job.end(log, rank);
    }
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::ok);
  CHECK(told.communicators.size() == 3);
  for (const Diagnosis::Lag& lag : told.lags) CHECK(lag.ordinal == 1);
}

TEST_CASE("A missing rank is claimed only where the files allow it", "[job_log]") {
  MadeUpJob job(4);
  SECTION("all spoke, one not of the communicator") {
    JobBook log;
    for (int rank = 0; rank < 4; ++rank) job.say(log, rank, LineShape{"network", {{"network", "IB"}}});
    for (int rank : {0, 1, 3}) job.start(log, rank);
    const Diagnosis told = job.conclude(log);
    CHECK(told.verdict == Verdict::init_not_joined);
    CHECK(says(told.sentence, "rank 2"));
    CHECK(says(told.sentence, "pid 1002"));
  }
  SECTION("files of some ranks only") {
    JobBook log;
    job.start(log, 1);
    const Diagnosis told = job.conclude(log);
    CHECK(told.verdict == Verdict::unknown);
    CHECK(says(told.missing, "ranks 0,2,3"));
  }
  SECTION("one file of all, with all ranks but one") {
    job.one_file = true;
    JobBook log;
    for (int rank : {0, 1, 3}) job.start(log, rank);
    const Diagnosis told = job.conclude(log);
    CHECK(told.verdict == Verdict::init_not_joined);
    CHECK(says(told.sentence, "rank 2"));
    CHECK(says(told.sentence, "log.0"));
  }
  SECTION("one rank alone waits for nobody") {
    MadeUpJob alone(1);
    JobBook log;
    alone.start(log, 0);
    CHECK(alone.conclude(log).verdict == Verdict::unknown);
  }
}

TEST_CASE("Ranks that wait for each other on two communicators are a deadlock", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  job.init(log, 0, 1);
  job.init(log, 1, 2);
  SECTION("each logged only the call that it waits in") {
    for (int rank = 0; rank < 4; ++rank) job.call(log, rank, {.count = 8}, rank == 2 ? 1 : 0);
  }
  SECTION("each enqueued both, in opposite orders") {
    for (int rank = 0; rank < 4; ++rank) {
      job.call(log, rank, {.count = 8}, rank == 2 ? 1 : 0);
      job.call(log, rank, {.count = 8}, rank == 2 ? 0 : 1);
    }
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::order_mismatch);
  CHECK(says(told.sentence, "deadlock"));
  CHECK(says(told.sentence, "rank 2"));
}

TEST_CASE("An exchanged order that the job outlived is not a deadlock", "[job_log]") {
  MadeUpJob job(2);
  JobBook log;
  job.init(log, 0, 1);
  job.init(log, 1, 2);
  for (int rank = 0; rank < 2; ++rank) {
    job.call(log, rank, {.count = 8}, rank);
    job.call(log, rank, {.count = 8}, 1 - rank);
    for (int i = 0; i < 20; ++i) {
      job.call(log, rank, {.count = 8}, 0);
      job.call(log, rank, {.count = 8}, 1);
    }
  }
  CHECK(job.conclude(log).verdict == Verdict::ok);
}

TEST_CASE("Threads of one process are ranks of their own", "[job_log]") {
  JobBook log;
  for (int dev = 0; dev < 2; ++dev) {
    LogLine line;
    line.origin.host = "node0";
    line.origin.pid = 7;
    line.origin.dev = dev;
    InitMessage event;
    event.comm = 0x10u + static_cast<unsigned>(dev);
    event.rank = dev + 4;
    event.nranks = 16;
    event.comm_id = 9;
    event.complete = true;
    const std::string text = event.line();
    line.fact = parse_log_line(text).fact;
    log.add(line, 0, static_cast<std::uint64_t>(dev) + 1);
  }
  const Diagnosis told = log.conclude({}, {});
  REQUIRE(told.communicators.size() == 1);
  CHECK(told.communicators[0].completed == std::vector<int>{4, 5});
  CHECK(told.communicators[0].not_seen.size() == 14);
}
