// Would catch: a launch that hangs its parent (a full pipe, a grandchild that keeps it open, a child that ignores
// SIGTERM), one that outlives its time, one that takes itself for a rank of our own job, and temporary files that stay
// behind after Ctrl-C.

#include "common/processes/child.h"

#include "common/base/error.h"

#include <catch2/catch.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <string>

using namespace busbar;

namespace {

ChildResult shell(const std::string& script, ChildOptions options = {}) {
  return run_child({"sh", "-c", script}, options);
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Whether it still runs; a dead process whose parent has not asked yet (state Z) does not.
bool runs(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const auto end = text.rfind(')');
  return end != std::string::npos && text.size() > end + 2 && text[end + 2] != 'Z';
}

/// A kill is not over when it returns.
bool goes_away(pid_t pid) {
  for (int i = 0; i < 5000 && runs(pid); ++i) usleep(1000);
  return !runs(pid);
}

}  // namespace

TEST_CASE("A child's exit code, signal and both outputs come back", "[child][cluster]") {
  const ChildResult good = shell("echo out; echo err >&2; exit 3");
  CHECK(good.exit_code == 3);
  CHECK(good.out == "out\n");
  CHECK(good.err == "err\n");
  CHECK_FALSE(good.timed_out);
  CHECK(describe_end(good, 60) == "exit code 3");
  const ChildResult killed = shell("kill -9 $$");
  CHECK(killed.exit_code == -1);
  CHECK(killed.signal == SIGKILL);
  CHECK(describe_end(killed, 60) == "signal 9 (Killed)");
}

TEST_CASE("A child gets our settings and no stdin", "[child][cluster]") {
  ChildOptions options;
  options.environment = {{"BUSBAR_TEST_A", "1"}, {"BUSBAR_TEST_A", "2"}};
  CHECK(shell("echo $BUSBAR_TEST_A; cat", options).out == "2\n");
}

TEST_CASE("Output beyond the limit is read and dropped", "[child][cluster]") {
  ChildOptions options;
  options.output_limit = 1000;
  const ChildResult result = shell("yes | head -c 3000000; echo end >&2", options);
  CHECK(result.exit_code == 0);
  CHECK(result.cut);
  CHECK(result.out.size() == 1000);
  CHECK(result.err == "end\n");
}

TEST_CASE("A child that does not end is killed with its children, also where it ignores SIGTERM", "[child][cluster]") {
  ChildOptions options;
  options.timeout_s = 0.2;
  options.grace_s = 0.2;
  const ChildResult result = shell("trap '' TERM; sleep 1000 & echo $!; wait; wait; sleep 1000", options);
  CHECK(result.timed_out);
  CHECK_FALSE(result.good());
  CHECK(describe_end(result, 0.2) == "no end after 0.2 s");
  CHECK(goes_away(std::stoi(result.out)));
}

TEST_CASE("A grandchild that keeps the pipes open neither delays the end nor outlives it", "[child][cluster]") {
  const ChildResult result = shell("sleep 1000 & echo $!");
  CHECK(result.exit_code == 0);
  CHECK_FALSE(result.timed_out);
  CHECK(goes_away(std::stoi(result.out)));
}

TEST_CASE("What cannot be executed is an error that names it", "[child][cluster]") {
  try {
    run_child({"/nonexistent/launcher"}, {});
    FAIL("it ran");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::not_possible);
    CHECK(std::string(e.what()) == "cannot execute '/nonexistent/launcher': No such file or directory");
  }
  CHECK_THROWS_AS(run_child({}, {}), Error);
}

TEST_CASE("SIGTERM while a child runs kills it, unwinds us and ends us by SIGTERM", "[child][cluster]") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t us = fork();
  if (us == 0) {
    alarm(60);  // should the child not be killed, who waits for it below
    try {
      // The child itself sends the signal, so nothing depends on time; then it hands its id to the test.
      ChildOptions options;
      options.grace_s = 0.1;
      dup2(ends[1], STDERR_FILENO);
      options.forward_stderr = true;
      shell("echo $$ >&2; kill -TERM $PPID; trap '' TERM; sleep 1000", options);
    } catch (const Interrupted& e) {
      end_by_signal(e.signal());
    } catch (...) {
    }
    _exit(1);
  }
  close(ends[1]);
  int status = 0;
  REQUIRE(waitpid(us, &status, 0) == us);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
  std::array<char, 32> text{};
  REQUIRE(read(ends[0], text.data(), text.size() - 1) > 0);
  CHECK(goes_away(std::atoi(text.data())));
  close(ends[0]);
}

TEST_CASE("A signal that nohup made us ignore interrupts nothing", "[child][cluster]") {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  ChildOptions options;
  CHECK(shell("kill -HUP $PPID; exit 3", options).exit_code == 3);
  std::signal(SIGHUP, before);
}

TEST_CASE("A rank's launch is not told that it is a rank", "[child][cluster]") {
  const std::vector<const char*> ours{"PATH=/bin",
                                      "OMPI_COMM_WORLD_RANK=1",
                                      "OMPI_MCA_orte_hnp_uri=1.0;tcp",
                                      "OMPI_MCA_ess_base_jobid=7",
                                      "PMIX_RANK=1",
                                      "PMI_RANK=1",
                                      "OMPI_MCA_coll_tuned_use_dynamic_rules=1",
                                      "OMPI_ALLOW_RUN_AS_ROOT=1",
                                      "HOME=/x"};
  const std::vector<std::string> rank = child_environment(ours, true, {{"HOME", "/y"}, {"NEW", "a=b"}});
  CHECK(rank == std::vector<std::string>{"PATH=/bin", "OMPI_MCA_coll_tuned_use_dynamic_rules=1",
                                         "OMPI_ALLOW_RUN_AS_ROOT=1", "HOME=/y", "NEW=a=b"});
  const std::vector<std::string> alone = child_environment(ours, false, {});
  CHECK(alone.size() == ours.size());
  CHECK(has(alone, "PMIX_RANK=1"));
}

TEST_CASE("A child of a rank without MPI is no rank", "[child][sockets]") {
  // Else it would wait for the others of the job that started its parent.
  const std::vector<const char*> ours{
      "RANK=3",        "WORLD_SIZE=4",  "LOCAL_RANK=1",          "LOCAL_WORLD_SIZE=2",
      "MASTER_ADDR=a", "MASTER_PORT=1", "GROUP_RANK=0",          "TORCHELASTIC_RUN_ID=r",
      "RANKING=kept",  "MY_RANK=kept",  "JOB_COMPLETION_INDEX=1"};
  CHECK(child_environment(ours, true, {}) == std::vector<std::string>{"RANKING=kept", "MY_RANK=kept"});
}
