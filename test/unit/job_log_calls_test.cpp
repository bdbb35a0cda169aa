// The bugs these would catch: a healthy rank blamed because it stood first in the file, calls compared at the wrong
// place where logs begin in the middle, a usual skew called a hang, a late rank not found behind half a million calls,
// and two halves of a job's logs that conclude otherwise than the whole.

#include "unit/job_log_fixture.h"

#include <catch2/catch.hpp>
#include <malloc.h>

#include <string>

using namespace busbar;

namespace {

using Called = MadeUpJob::Called;

/// All ranks make calls 0 to n - 1, all different, then each what `last` says.
template <typename Last>
Diagnosis after_common_calls(int nranks, int n, Last last) {
  MadeUpJob job(nranks);
  JobBook log;
  job.init(log);
  for (int rank = 0; rank < nranks; ++rank) {
    for (int i = 0; i < n; ++i) {
      job.call(log, rank, {.count = 100 + static_cast<std::uint64_t>(i), .op_count = static_cast<std::uint64_t>(i)});
    }
    last(job, log, rank);
  }
  return job.conclude(log);
}

/// One file, each rank's lines after those of the rank before: `calls(rank)` are its calls, -1: only that it began, -2:
/// nothing. `begins(rank)`: whether its first lines are there.
template <typename Calls, typename Begins>
Diagnosis one_after_the_other(int nranks, Calls calls, Begins begins) {
  MadeUpJob job(nranks);
  job.one_file = true;
  JobBook log;
  for (int rank = 0; rank < nranks; ++rank) {
    if (calls(rank) == -2) continue;
    if (begins(rank)) {
      job.say(log, rank, LineShape{"network", {{"network", "IB"}}});
      job.start(log, rank);
    }
    if (begins(rank) && calls(rank) >= 0) job.complete(log, rank);
    for (int i = 0; i < calls(rank); ++i) {
      const auto number = static_cast<std::uint64_t>(i);
      job.call(log, rank, {.count = 100 + number, .op_count = number});
    }
  }
  return job.conclude(log);
}

bool always(int) { return true; }

}  // namespace

TEST_CASE("The rank whose count differs is named, not the first of the file", "[job_log]") {
  const Diagnosis told = after_common_calls(4, 3, [](MadeUpJob& job, JobBook& log, int rank) {
    job.call(log, rank, {.count = rank == 0 ? 9u : 8u, .op_count = 3});
  });
  CHECK(told.verdict == Verdict::arg_mismatch);
  CHECK(says(told.sentence, "rank 0"));
  CHECK(says(told.sentence, "count 9 instead of 8"));
  CHECK(says(told.sentence, "call #4"));
  // The calls after it are the same ones, so it made none of its own.
  const Diagnosis once = after_common_calls(4, 3, [](MadeUpJob& job, JobBook& log, int rank) {
    for (const std::uint32_t op_count : {3u, 4u, 5u})
      job.call(log, rank, {.count = rank == 0 && op_count == 3 ? 9u : 8u, .op_count = op_count});
  });
  CHECK(once.verdict == Verdict::arg_mismatch);
  CHECK_FALSE(says(once.evidence, "calls of its own"));
}

TEST_CASE("Operation, datatype, reduction and root are compared, each where it matters", "[job_log]") {
  const auto verdict = [](const Called& usual, const Called& other) {
    return after_common_calls(
        4, 1, [&](MadeUpJob& job, JobBook& log, int rank) { job.call(log, rank, rank == 2 ? other : usual); });
  };
  CHECK(says(verdict({.op = "AllReduce"}, {.op = "AllGather"}).sentence, "AllGather instead of AllReduce"));
  CHECK(says(verdict({.dtype = "7"}, {.dtype = "8"}).sentence, "datatype 8 instead of 7"));
  CHECK(says(verdict({.redop = "0"}, {.redop = "2"}).sentence, "op 2 instead of 0"));
  CHECK(says(verdict({.op = "Broadcast", .root = 0}, {.op = "Broadcast", .root = 1}).sentence, "root 1 instead of 0"));
  // Printed, but without a meaning.
  CHECK(verdict({.op = "AllReduce", .root = 0}, {.op = "AllReduce", .root = 1}).verdict == Verdict::ok);
  CHECK(verdict({.op = "AllGather", .redop = "0"}, {.op = "AllGather", .redop = "1"}).verdict == Verdict::ok);
  // A reduction of the user's own is a handle of each process.
  CHECK(verdict({.redop = "140233"}, {.redop = "998877"}).verdict == Verdict::ok);
}

TEST_CASE("Two against two is a tie and called one", "[job_log]") {
  const Diagnosis told = after_common_calls(
      4, 1, [](MadeUpJob& job, JobBook& log, int rank) { job.call(log, rank, {.count = rank < 2 ? 9u : 8u}); });
  CHECK(told.verdict == Verdict::arg_mismatch);
  CHECK(says(told.sentence, "neither is the majority"));
}

TEST_CASE("The same calls in another order are told from other calls", "[job_log]") {
  const Called a{.op = "AllReduce", .count = 5}, b{.op = "AllGather", .count = 6}, c{.op = "Reduce", .count = 7};
  const auto told = [&](const std::vector<Called>& of_rank_3) {
    return after_common_calls(4, 2, [&](MadeUpJob& job, JobBook& log, int rank) {
      for (const Called& one : rank == 3 ? of_rank_3 : std::vector<Called>{a, b, c}) job.call(log, rank, one);
    });
  };
  const Diagnosis swapped = told({b, a, c});
  CHECK(swapped.verdict == Verdict::order_mismatch);
  CHECK(says(swapped.sentence, "rank 3"));
  // One skipped: what follows is early by one.
  const Diagnosis skipped = told({b, c});
  CHECK(skipped.verdict == Verdict::arg_mismatch);
  CHECK(says(skipped.evidence, "shifted by 1 call"));
}

TEST_CASE("Send and Recv need not agree", "[job_log]") {
  const Diagnosis told = after_common_calls(4, 2, [](MadeUpJob& job, JobBook& log, int rank) {
    job.call(log, rank, {.op = rank % 2 == 0 ? "Send" : "Recv", .count = 10u + static_cast<unsigned>(rank)});
    if (rank == 1) job.call(log, rank, {.op = "Recv", .count = 3});
  });
  CHECK(told.verdict == Verdict::ok);
}

TEST_CASE("A rank that most others wait for lags; a rank ahead of one other does not make that one late", "[job_log]") {
  const auto told = [](int nranks, int late, int calls_behind) {
    return after_common_calls(nranks, 5, [=](MadeUpJob& job, JobBook& log, int rank) {
      for (int i = 0; i < (rank == late ? 3 - calls_behind : 3); ++i) {
        job.call(log, rank, {.count = 50 + static_cast<std::uint64_t>(i)});
      }
    });
  };
  const Diagnosis hung = told(4, 2, 1);
  CHECK(hung.verdict == Verdict::rank_lagging);
  CHECK(says(hung.sentence, "rank 2 (node1, pid 1002)"));
  CHECK(says(hung.sentence, "never made call #8"));
  CHECK(says(hung.sentence, "last call #7"));
  CHECK(hung.lags.front().rank == 2);
  CHECK(hung.lags.front().ordinal == 7);
  CHECK(told(2, 0, 2).verdict == Verdict::ok);  // enqueued ahead
}

TEST_CASE("Who ended the communicator in good order waits for nobody in it", "[job_log]") {
  const auto told = [](bool all) {
    return after_common_calls(4, 5, [=](MadeUpJob& job, JobBook& log, int rank) {
      if (rank == 2) return;
      job.call(log, rank, {.count = 50});
      if (all || rank == 0) job.end(log, rank);
    });
  };
  CHECK(told(true).verdict == Verdict::ok);
  CHECK(told(false).verdict == Verdict::rank_lagging);
}

TEST_CASE("A log that begins in the middle of a host's name has no further process", "[job_log]") {
  const auto ranks_seen = [](std::string_view host, int pid) {
    MadeUpJob job(4);
    JobBook log;
    LogLine line;
    line.origin.host = host;
    line.origin.pid = pid;
    line.origin.dev = 0;
    line.fact = LineShape{"version", {{"nccl", "2.28.9"}}};
    log.add(line, 2, 1);
    job.init(log);
    for (const auto& [key, value] : job.conclude(log).facts) {
      if (key == "ranks_seen") return value;
    }
    return std::string("none");
  };
  CHECK(ranks_seen("ode1", 1002) == "4");
  CHECK(ranks_seen("", -1) == "4");
  CHECK(ranks_seen("ode1", 1999) == "5");  // nobody else's end
  CHECK(ranks_seen("gpu1", 1002) == "5");
}

TEST_CASE("The last line that was cut may be the call that is missing, but not where it is another process's",
          "[job_log]") {
  const auto told = [](std::string_view tail) {
    return after_common_calls(4, 5, [=](MadeUpJob& job, JobBook& log, int rank) {
      if (rank != 2) job.call(log, rank, {.count = 50});
      if (rank == 2) job.say_bare(log, rank, tail);
    });
  };
  CHECK(told("node1:1002:1").verdict == Verdict::ok);
  CHECK(told("node1:1003:1003 [1").verdict == Verdict::rank_lagging);
}

TEST_CASE("Logs that begin in the middle are matched by opCount up to 2.26", "[job_log]") {
  MadeUpJob job(3);
  JobBook log;
  const auto call = [&](int rank, std::uint64_t op_count, std::uint64_t count) {
    job.call(log, rank, {.count = count, .op_count = op_count});
  };
  // Rank 0's log begins at 7, rank 1's at 8, rank 2's at 6; rank 2 differs at 9.
  for (std::uint64_t i = 7; i < 12; ++i) call(0, i, 100 + i);
  for (std::uint64_t i = 8; i < 12; ++i) call(1, i, 100 + i);
  for (std::uint64_t i = 6; i < 12; ++i) call(2, i, i == 9 ? 1 : 100 + i);
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::arg_mismatch);
  CHECK(says(told.sentence, "pid 1002"));  // nothing tells its rank
  CHECK(says(told.sentence, "call opCount 9"));
  CHECK(says(told.evidence, "opCount"));
}

TEST_CASE("Calls that opCount passes over on some ranks only are lines that were lost, and nobody is blamed for them",
          "[job_log]") {
  const auto told = [](std::string_view version, std::uint64_t deviating_at, bool counts_everywhere = true) {
    MadeUpJob job(4);
    job.one_file = true;
    JobBook log;
    for (int rank = 0; rank < 4; ++rank) job.say(log, rank, LineShape{"version", {{"nccl", version}}});
    job.init(log);
    for (int rank = 0; rank < 4; ++rank) {
      for (std::uint64_t i = 0; i < 9; ++i) {
        if ((rank == 2 && (i == 2 || i == 3)) || (rank == 3 && i >= 7)) continue;
        const bool counts = counts_everywhere || rank == 2;
        job.call(log, rank,
                 {.count = rank == 1 && i == deviating_at ? 5 : 100 + i, .op_count = counts ? i : std::uint64_t{0}});
      }
    }
    return job.conclude(log);
  };
  const Diagnosis lost = told("2.21.5", 99);
  CHECK(lost.verdict == Verdict::ok);
  CHECK(says(lost.missing, "opCount passes over 2 calls of rank 2"));
  // What the others and even the one with the hole tell of the same opCount can be compared.
  const Diagnosis differs = told("2.21.5", 5);
  CHECK(differs.verdict == Verdict::arg_mismatch);
  CHECK(differs.ranks == std::vector<int>{1});
  CHECK(says(differs.sentence, "call opCount 5 "));
  CHECK(says(differs.evidence, "lines are missing in the logs"));
  // From 2.27 on opCount tells of the hole, and not which calls are the same.
  CHECK(told("2.28.9", 99, false).verdict == Verdict::ok);
  CHECK(says(told("2.28.9", 99, false).missing, "opCount passes over 2 calls of rank 2"));
}

TEST_CASE("What opCount passes over on all ranks alike are replays of CUDA graphs", "[job_log]") {
  MadeUpJob job(3);
  JobBook log;
  for (int rank = 0; rank < 3; ++rank) job.say(log, rank, LineShape{"version", {{"nccl", "2.21.5"}}});
  job.init(log);
  for (int rank = 0; rank < 3; ++rank) {
    for (std::uint64_t i = 0; i < 6; ++i) {
      job.call(log, rank, {.count = rank == 1 && i == 4 ? 5 : 100 + i, .op_count = i < 3 ? i : i + 1000});
    }
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.ranks == std::vector<int>{1});
  CHECK(says(told.sentence, "call #5"));
  CHECK_FALSE(says(told.missing, "passes over"));
}

TEST_CASE("Where each rank lacks a call, but not the same one, lines were lost", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  for (int rank = 0; rank < 4; ++rank) job.say(log, rank, LineShape{"version", {{"nccl", "2.21.5"}}});
  job.init(log);
  for (int rank = 0; rank < 4; ++rank) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      if (i != (rank == 3 ? 0 : 1)) job.call(log, rank, {.count = 100 + i, .op_count = i});
    }
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.ranks.empty());
  CHECK(says(told.missing, "opCount passes over 1 call of rank 3"));
}

TEST_CASE("From 2.27 on an opCount of 0 does not show that a log begins with the communicator", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  for (int rank : {0, 1, 3}) {
    job.say(log, rank, LineShape{"version", {{"nccl", "2.28.9"}}});
    job.start(log, rank);
    job.complete(log, rank);
  }
  for (int rank = 0; rank < 4; ++rank) {
    for (std::uint64_t i = rank == 2 ? 1 : 0; i < 4; ++i) job.call(log, rank, {.count = 100 + i});
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::ok);
  CHECK(told.ranks.empty());
}

TEST_CASE("A rank that calls without its Init COMPLETE shows that the others' may be missing as well", "[job_log]") {
  MadeUpJob job(4);
  job.one_file = true;
  JobBook log;
  for (int rank = 0; rank < 4; ++rank) {
    job.start(log, rank);
    if (rank < 2) job.complete(log, rank);
    if (rank < 3) job.call(log, rank, {});
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::ok);
  CHECK(says(told.missing, "rank 2 (node1, pid 1002) calls, and its Init COMPLETE is missing"));
}

TEST_CASE("The last rank in front of a stretch that is missing is not late for it", "[job_log]") {
  const auto up_to_four = [](int calls_of_last) {
    return [=](int rank) { return rank > 4 ? -2 : rank == 4 ? calls_of_last : 4; };
  };
  const Diagnosis cut = one_after_the_other(8, up_to_four(2), always);
  CHECK(cut.verdict == Verdict::unknown);
  CHECK(cut.ranks.empty());
  CHECK(says(cut.sentence, "the log of rank 4 (node2, pid 1004) ends earlier"));
  CHECK(says(cut.missing, "the end of the log of rank 4"));
  // The others completed the initialisation, for which all are needed.
  const Diagnosis early = one_after_the_other(8, up_to_four(-1), always);
  CHECK(early.verdict == Verdict::ok);
  CHECK(says(early.missing, "a stretch of the log after rank 4"));
  SECTION("who is late elsewhere still is") {
    const Diagnosis told = one_after_the_other(
        8, [&](int rank) { return rank == 1 ? 2 : up_to_four(3)(rank); }, always);
    CHECK(told.verdict == Verdict::rank_lagging);
    CHECK(told.ranks == std::vector<int>{1});
  }
  SECTION("the next begins in the middle") {
    const auto told = [](int rank) { return rank == 3 ? 2 : 4; };
    CHECK(one_after_the_other(8, told, [](int rank) { return rank != 4; }).ranks.empty());
    CHECK(one_after_the_other(8, told, always).ranks == std::vector<int>{3});
  }
  SECTION("nothing is missing") {
    const Diagnosis told = one_after_the_other(
        8, [](int rank) { return rank == 7 ? 2 : 4; }, always);
    CHECK(told.verdict == Verdict::rank_lagging);
    CHECK(told.ranks == std::vector<int>{7});
  }
}

TEST_CASE("From 2.27 on logs that begin in the middle are matched where they agree", "[job_log]") {
  MadeUpJob job(3);
  JobBook log;
  for (int rank = 0; rank < 3; ++rank) {
    job.say(log, rank, LineShape{"version", {{"nccl", "2.28.9"}, {"cuda", "13.0"}}});
    // Ranks begin at different calls and all print the same meaningless opCount.
    for (int i = rank; i < 40; ++i)
      job.call(log, rank, {.count = 100 + static_cast<std::uint64_t>(i * i), .op_count = 5});
  }
  CHECK(job.conclude(log).verdict == Verdict::ok);
  for (int rank = 0; rank < 3; ++rank) job.call(log, rank, {.count = rank == 1 ? 3u : 4u, .op_count = 5});
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::arg_mismatch);
  CHECK(says(told.sentence, "pid 1001"));
  CHECK(says(told.sentence, "call #41"));
  CHECK(says(told.evidence, "agree most"));
}

TEST_CASE("Where logs begin in the middle a call has its number in the one that reaches back furthest", "[job_log]") {
  MadeUpJob job(3);
  JobBook log;
  for (int rank = 0; rank < 3; ++rank) {
    job.say(log, rank, LineShape{"version", {{"nccl", "2.28.9"}, {"cuda", "13.0"}}});
    // The longest logs, those of ranks 0 and 1, begin later than rank 2's.
    for (int i = rank == 2 ? 0 : 5; i < (rank == 2 ? 50 : 60); ++i) {
      const auto count = 100 + static_cast<std::uint64_t>(i * i);
      job.call(log, rank, {.count = rank == 2 && i == 30 ? 1 : count, .op_count = 5});
    }
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::arg_mismatch);
  CHECK(says(told.sentence, "pid 1002"));
  CHECK(says(told.sentence, "call #31"));
}

TEST_CASE("A rank that never called has no last call", "[job_log]") {
  const Diagnosis told = after_common_calls(4, 0, [](MadeUpJob& job, JobBook& log, int rank) {
    if (rank != 2) job.call(log, rank, {});
  });
  CHECK(told.verdict == Verdict::rank_lagging);
  CHECK(says(told.sentence, "rank 2 (node1, pid 1002) never made call #1 "));
  CHECK(says(told.sentence, "no call at all before"));
}

TEST_CASE("A difference is found as far back as launches wait in a stream", "[job_log]") {
  MadeUpJob job(4);
  JobBook log;
  job.init(log);
  for (int i = 0; i < 20000; ++i) {
    for (int rank = 0; rank < 4; ++rank) {
      job.call(log, rank, {.count = i == 19000 && rank == 3 ? 1u : 1000u + static_cast<unsigned>(i % 7)});
    }
  }
  const Diagnosis said = job.conclude(log);
  CHECK(said.verdict == Verdict::arg_mismatch);
  CHECK(says(said.sentence, "rank 3"));
  CHECK(says(said.sentence, "call #19001"));
}

TEST_CASE("Memory does not grow with the calls", "[job_log][slow]") {
  MadeUpJob job(2);
  JobBook log;
  job.init(log);                                    // reads the rules, which are large
  const std::size_t before = mallinfo2().uordblks;  // [bytes] taken from the heap
  const auto make_calls = [&](int n) {
    for (int i = 0; i < n; ++i) {
      for (int rank = 0; rank < 2; ++rank) job.call(log, rank, {.count = static_cast<std::uint64_t>(i)});
    }
  };
  make_calls(100000);
  const std::size_t held = mallinfo2().uordblks;
  make_calls(400000);  // a million in all
  CHECK(mallinfo2().uordblks <= held + 1000);
  CHECK(held - before < 100000);
  CHECK(job.conclude(log).verdict == Verdict::ok);
}

TEST_CASE("A rank's log in two files goes on where it stopped", "[job_log]") {
  MadeUpJob job(3);
  JobBook log;
  job.init(log);
  for (int rank = 0; rank < 3; ++rank) {
    for (int i = 0; i < 700; ++i) job.call(log, rank, {.count = 10 + static_cast<std::uint64_t>(i)});
  }
  for (int rank = 0; rank < 3; ++rank) {
    for (int i = 0; i < 300; ++i) job.call(log, rank, {.count = rank == 1 && i == 299 ? 1u : 5u});
  }
  const Diagnosis told = job.conclude(log);
  CHECK(told.verdict == Verdict::arg_mismatch);
  CHECK(says(told.sentence, "rank 1"));
  CHECK(says(told.sentence, "call #1000"));
}
