// The bugs these would catch: the stack of a helper thread taken for the rank's, one upside down, two ranks' lines that
// are mixed put into one stack, a line of somebody else swallowed, a rank blamed that waits like the others or that the
// stacks say nothing of, the many blamed for one that came early, members with equal stacks in two groups, and a stack
// that is the beginning of another taken for it.

#include "common/base/text.h"
#include "driver/diagnose/job_book.h"
#include "driver/diagnose/line_blocks.h"
#include "driver/readers/log_files.h"
#include "driver/readers/log_line.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace busbar;

namespace {

/// `py-spy dump` 0.4.3 of a rank whose main thread is in `frames`, the innermost first.
std::string py_spy(int pid, std::string_view frames) {
  return fmt::format(
      "Process {0}: python train.py\nPython v3.12.3 (/usr/bin/python3.12)\n\n"
      "Thread {0} (active): \"MainThread\"\n{1}    <module> (train.py:120)\n"
      "Thread {2} (idle): \"Thread-1 (_pin_memory_loop)\"\n    wait (threading.py:359)\n    get (queue.py:180)\n\n",
      pid, frames, pid + 5);
}

constexpr std::string_view kWaits =
    "    all_reduce (torch/distributed/distributed_c10d.py:2806)\n    wrapper (torch/distributed/c10d_logger.py:81)\n"
    "    step (train.py:77)\n";
constexpr std::string_view kSaves = "    write (libc.so.6)\n    save (checkpoint.py:88)\n    main (train.py:101)\n";

std::deque<ProcessStack> stacks_in(std::string_view text, const std::string& file) {
  StackDumps dumps;
  for (const std::string_view line : split_text(text, '\n')) dumps.add(line);
  return dumps.take(file);
}

/// `texts`: of ranks 0, 1, ..., each in a file named after it.
Diagnosis diagnosed(const std::vector<std::string>& texts, std::string_view name = "stacks.rank{}.txt") {
  JobBook log;
  std::vector<LogFile> files;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    files.emplace_back().path = fmt::format(fmt::runtime(name), rank);
    files.back().stacks = stacks_in(texts[rank], files.back().path.string());
  }
  return log.conclude(std::move(files), {});
}

}  // namespace

TEST_CASE("py-spy's main threads are read, the outermost call first", "[stack_dumps]") {
  const std::deque<ProcessStack> stacks = stacks_in(py_spy(42, kSaves) + py_spy(99, kWaits), "stacks.txt");
  REQUIRE(stacks.size() == 2);
  CHECK(stacks[0].pid == "42");
  CHECK(stacks[0].process == StackMember{-1, "pid 42 in stacks.txt"});
  CHECK(stacks[0].frames == std::vector<std::string>{"<module> (train.py:120)", "main (train.py:101)",
                                                     "save (checkpoint.py:88)", "write (libc.so.6)"});
  CHECK(stacks[1].frames.size() == 4);
  // Threads without names: the main one has the number of the process.
  CHECK(stacks_in("Process 42: x\nThread 43 (idle)\n    a (b.py:1)\nThread 42 (idle)\n    c (d.py:2)", "")[0].frames ==
        std::vector<std::string>{"c (d.py:2)"});
}

TEST_CASE("gdb's first thread is read, with or without a heading", "[stack_dumps]") {
  // gdb 13.1, `thread apply all bt`
  constexpr std::string_view kGdb =
      "[New LWP 32719]\n"
      "__futex_abstimed_wait_common64 (private=128, cancel=true) at ./nptl/futex-internal.c:57\n\n"
      "Thread 2 (Thread 0x7f83d893d6c0 (LWP 32719) \"g\"):\n"
      "#0  0x00007f83d8aed545 in __GI___clock_nanosleep (clock_id=0, flags=0) at "
      "../sysdeps/unix/clock_nanosleep.c:48\n\n"
      "Thread 1 (Thread 0x7f83d8e3c440 (LWP 32717) \"g\"):\n"
      "#0  __futex_abstimed_wait_common64 (private=128, cancel=true) at ./nptl/futex-internal.c:57\n"
      "#4  0x00007f83d8cd4517 in std::thread::join() () from /lib/x86_64-linux-gnu/libstdc++.so.6\n"
      "#6  0x000055af67fc97ac in std::__invoke_impl<int, main()::<lambda(int)>&, int>(std::__invoke_other, struct "
      "{...} "
      "&) (__f=...) at /usr/include/c++/12/bits/invoke.h:61\n"
      "#10 0x000055af67fc926b in main () at g.cpp:5\n"
      "[Inferior 1 (process 32717) detached]\n";
  const std::vector<std::string> frames{
      "main (g.cpp:5)",
      "std::__invoke_impl<int, main()::<lambda(int)>&, int>(std::__invoke_other, struct "
      "{...} &) (invoke.h:61)",
      "std::thread::join() (libstdc++.so.6)", "__futex_abstimed_wait_common64 (futex-internal.c:57)"};
  std::deque<ProcessStack> stacks = stacks_in(kGdb, "gdb.rank3");
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].pid == "32717");
  CHECK(stacks[0].process == StackMember{3, ""});
  CHECK(stacks[0].frames.front() == frames.front());
  CHECK(stacks[0].frames.back() == frames.back());
  CHECK(stacks[0].frames.size() == 4);
  // `bt` alone, of two processes in turn; pstack
  stacks = stacks_in("#0  0x7f in poll () from /lib/libc.so.6\n#1  0x7f in main ()\n#0  a () at b.c:1\n", "x");
  REQUIRE(stacks.size() == 2);
  CHECK(stacks[0].frames == std::vector<std::string>{"main", "poll (libc.so.6)"});
  CHECK(stacks[1].frames == std::vector<std::string>{"a (b.c:1)"});
  CHECK(stacks_in("Thread 1 (process 77):\n#0  0x7f in poll () from /lib/libc.so.6\n", "x")[0].pid == "77");
}

TEST_CASE("Lines of ranks that are mixed are told apart, and what others say is left to them", "[stack_dumps]") {
  StackDumps dumps;
  const std::vector<std::string_view> zero = split_text(kWaits, '\n'), one = split_text(kSaves, '\n');
  for (const char* head : {"[rank0]: Process 7: x", "[rank1]: Process 7: x", "[rank0]: Thread 7 (idle): \"MainThread\"",
                           "[rank1]: Thread 7 (idle): \"MainThread\""}) {
    CHECK(dumps.add(head));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(dumps.add(fmt::format("[rank0]: {}", zero[i])));
    CHECK(dumps.add(fmt::format("[rank1]: {}", one[i])));
  }
  CHECK_FALSE(dumps.add("[rank1]: RuntimeError: CUDA error: out of memory (alloc.cpp:7)"));
  CHECK_FALSE(dumps.add("epoch 3"));
  const std::deque<ProcessStack> stacks = dumps.take("out.txt");
  REQUIRE(stacks.size() == 2);
  CHECK(stacks[0].process.rank == 0);
  CHECK(stacks[0].frames.front() == "step (train.py:77)");
  CHECK(stacks[1].process.rank == 1);
  CHECK(stacks[1].frames.front() == "main (train.py:101)");
  // Without a heading nothing is a stack.
  for (const char* line : {"    wait (threading.py:359)", "Thread 3 died", "Process 3 exited", "#0 0x1 in f a.c:1",
                           "frame #0: c10::Error (libc10.so)", "#1  0x7f in main ()"}) {
    CHECK_FALSE(dumps.add(line));
  }
  CHECK(dumps.take("x").empty());
}

TEST_CASE("Ranks that are elsewhere than in the collective operation of the others are named", "[stack_dumps]") {
  std::vector<std::string> texts(7, py_spy(42, kWaits));
  texts.push_back(py_spy(42, kSaves));
  Diagnosis told = diagnosed(texts);
  CHECK(told.verdict == Verdict::rank_lagging);
  CHECK(told.ranks == std::vector<int>{7});
  CHECK_THAT(told.sentence, Catch::Contains("rank 7 is in save (checkpoint.py:88)"));
  CHECK_THAT(told.sentence, Catch::Contains("apart from most since main (train.py:101)"));
  CHECK_THAT(told.sentence, Catch::Contains("ranks 0-6 are waiting in all_reduce, from step (train.py:77)"));

  // One whose stack is the beginning of that of the others is apart from them, and not since any call.
  CHECK_THAT(diagnosed({py_spy(42, kWaits), py_spy(42, kWaits), py_spy(42, "    step (train.py:77)\n")}).sentence,
             Catch::EndsWith("rank 2 is in step (train.py:77); ranks 0,1 are waiting in "
                             "all_reduce, from step (train.py:77)"));

  // The newest stack counts.
  texts.back() += py_spy(42, kWaits);
  told = diagnosed(texts);
  CHECK(told.verdict == Verdict::unknown);
  CHECK(told.ranks.empty());

  // Two operations: an order that differs, perhaps.
  texts.back() = py_spy(42, "    barrier (torch/distributed/distributed_c10d.py:4567)\n    save (checkpoint.py:88)\n");
  told = diagnosed(texts);
  CHECK(told.verdict == Verdict::unknown);
  CHECK(told.ranks.empty());
  CHECK_THAT(told.sentence, Catch::Contains("rank 7 is waiting in barrier, from save"));

  // One that came early.
  told = diagnosed({py_spy(42, kWaits), py_spy(42, kSaves), py_spy(42, kSaves)});
  CHECK(told.verdict == Verdict::unknown);
  CHECK(told.ranks.empty());

  // Nobody is known to be a rank: it may be a launcher.
  told = diagnosed({py_spy(42, kWaits), py_spy(42, kSaves), py_spy(42, kWaits)}, "stacks{}.txt");
  CHECK(told.verdict == Verdict::unknown);
  CHECK_THAT(told.sentence, Catch::Contains("pid 42 in stacks1.txt is in save"));
  constexpr std::string_view kAgent =
      "    wait (torch/distributed/elastic/multiprocessing/api.py:545)\n    run (torch/distributed/run.py:900)\n";
  CHECK(diagnosed({py_spy(42, kAgent), py_spy(42, kSaves)}).verdict == Verdict::unknown);
  // Children of a rank, behind it in its file.
  const std::string with_child = py_spy(42, kWaits) + py_spy(77, "    get (queue.py:180)\n");
  CHECK(diagnosed({with_child, with_child}).verdict == Verdict::unknown);
  CHECK_THAT(diagnosed({with_child, with_child}).sentence, Catch::EndsWith("all_reduce, from step (train.py:77)"));
}

TEST_CASE("A pid that NCCL's log names tells the rank", "[stack_dumps]") {
  JobBook log;
  std::vector<LogFile> files(1);
  files[0].path = "all.txt";
  for (int rank = 0; rank < 3; ++rank) {
    const std::string line = fmt::format(
        "node1:{0}:{0} [{1}] NCCL INFO comm 0x55d{1} rank {1} nranks 3 cudaDev {1} busId 1000 commId 0x77 - Init "
        "COMPLETE",
        1000 + rank, rank);
    log.add(parse_log_line(line), 0, static_cast<std::uint64_t>(rank) + 1);
  }
  files[0].stacks = stacks_in(py_spy(1000, kWaits) + py_spy(1001, kSaves) + py_spy(1002, kWaits), "all.txt");
  const Diagnosis told = log.conclude(std::move(files), {});
  CHECK(told.verdict == Verdict::rank_lagging);
  CHECK(told.ranks == std::vector<int>{1});
  // The same pid on two hosts tells none.
  JobBook hosts;
  files.assign(1, {});
  files[0].path = "all.txt";
  for (int rank = 0; rank < 3; ++rank) {
    const std::string line = fmt::format(
        "node{0}:{1}:{1} [0] NCCL INFO comm 0x55d{0} rank {0} nranks 3 cudaDev 0 busId 1000 commId 0x77 - Init "
        "COMPLETE",
        rank, rank == 0 ? 1000 : 1001);
    hosts.add(parse_log_line(line), 0, static_cast<std::uint64_t>(rank) + 1);
  }
  files[0].stacks = stacks_in(py_spy(1000, kWaits) + py_spy(1001, kSaves), "all.txt");
  CHECK(hosts.conclude(std::move(files), {}).verdict == Verdict::unknown);
}

TEST_CASE("A heading names the rank of the stack below it", "[stack_dumps]") {
  const auto rank_of = [](std::string_view heading) {
    const std::deque<ProcessStack> stacks = stacks_in(fmt::format("{}\n\n{}", heading, py_spy(7, kSaves)), "dump.txt");
    REQUIRE(stacks.size() == 1);
    return stacks.front().process.rank;
  };
  CHECK(rank_of("The stack for rank0:") == 0);
  CHECK(rank_of("=== rank 12 ===") == 12);
  CHECK(rank_of("py-spy dump of rank 3") == 3);
  CHECK(rank_of("all ranks wait for rank 3") == -1);
  const std::deque<ProcessStack> two =
      stacks_in(fmt::format("Rank 0:\n{}Rank 1:\n{}", py_spy(7, kSaves), py_spy(8, kWaits)), "dump.txt");
  REQUIRE(two.size() == 2);
  CHECK(two[1].process.rank == 1);
}
