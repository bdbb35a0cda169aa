// Would catch: two runs that write at once damage the file or lose a row, a killed one leaves half a run, somebody's
// file is overwritten, a full disk ends a run of hours, and 3 % more on a noisy machine becomes an alarm.

#include "driver/history/history.h"

#include "common/base/error.h"
#include "common/output/reporter.h"
#include "driver/compare/compare_reporter.h"
#include "driver/history/history_judge.h"
#include "full_disk.h"
#include "golden.h"
#include "outputs_fixture.h"
#include "report_fixture.h"
#include "synthetic_times.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <ranges>
#include <set>

using namespace busbar;
using Catch::Contains;
using Verdict = CellAgainstHistory::Verdict;

namespace {

HistoryRun history_run(double median_s, const std::string& time = "2026-07-04 10:20:30", std::size_t cells = 1) {
  HistoryRun run;
  run.time = time;
  run.kind = "perf";
  run.title = "all_reduce_perf";
  run.backend = "mpi";
  run.library = "Open MPI 4.1.4";
  run.estimand = "isolated";
  run.hosts = {"node1", "node2"};
  run.nranks = 4;
  run.outcome = Outcome::pass;
  for (std::size_t i = 0; i < cells; ++i) {
    Cell& cell = run.cells.emplace_back();
    cell.scope = "all";
    cell.collective = "all_reduce";
    cell.dtype = "float";
    cell.op = "sum";
    cell.nbytes = 8 * (i + 1);
    cell.median_s = median_s;
    cell.busbw = 1e-9 / median_s;
    cell.epoch_medians_s = {median_s, median_s};
  }
  return run;
}

/// Another program that has the file open.
struct SqliteFile {
  explicit SqliteFile(const std::string& path) {
    REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
    sqlite3_busy_timeout(database, 30000);
  }
  SqliteFile(const SqliteFile&) = delete;
  ~SqliteFile() { sqlite3_close(database); }

  /// The last answer's first column.
  std::string run(const std::string& sql) const {
    std::string answer;
    const auto take = [](void* into, int, char** columns, char**) {
      *static_cast<std::string*>(into) = columns[0];
      return 0;
    };
    CHECK(sqlite3_exec(database, sql.c_str(), take, &answer, nullptr) == SQLITE_OK);
    return answer;
  }

  sqlite3* database = nullptr;
};

void sqlite(const std::string& path, const std::string& sql) { SqliteFile(path).run(sql); }

void check_whole(const std::string& path) { CHECK(SqliteFile(path).run("PRAGMA integrity_check") == "ok"); }

std::vector<HistoryRun> runs_of(const std::string& path) { return History(path, History::Mode::read).runs(); }

/// Times around 1 ms that differ as launches do: the given deviations of the logarithm.
std::vector<HistoryRun> launches(const std::vector<double>& logs) {
  std::vector<HistoryRun> runs;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    runs.push_back(history_run(1e-3 * std::exp(logs[i]), fmt::format("2026-07-{:02} 10:00:00", i + 1)));
    runs.back().id = static_cast<std::int64_t>(i) + 1;
  }
  return runs;
}

Verdict verdict_against(const std::vector<HistoryRun>& before, double factor, double delta = 0.05) {
  HistoryRun after = history_run(1e-3 * factor, "2026-07-30 10:00:00");
  after.id = 100;
  return compare_with_history(after, before, {}, delta).cells.at(0).verdict;
}

}  // namespace

TEST_CASE("A run comes back as it was added", "[history][unit]") {
  const TempDir dir;
  const std::string path = dir.file("h.db");
  HistoryRun run = history_run(1.5e-6);
  run.uuid = "abc";
  run.command = "all_reduce_perf -b 8";
  run.environment = {"NCCL_ALGO=Ring", "NCCL_DEBUG=INFO"};
  run.exit_code = 7;
  run.outcome = Outcome::fail;
  run.cells[0].interval_s = Interval{1e-6, 2e-6};
  run.cells[0].in_place = true;
  run.cells[0].root = 3;
  run.cells[0].algorithm = "RING";
  run.cells[0].wrong = 12;
  run.cells[0].epoch_medians_s = {1.25e-6, 1.75e-6};
  run.criteria = output_result().criteria;
  check_history(path);
  REQUIRE(History(path, History::Mode::add).add(run) == 1);
  CHECK(History(path, History::Mode::add).add(history_run(1)) == 2);
  History history(path, History::Mode::read);
  std::vector<HistoryRun> runs = history.runs();
  REQUIRE(runs.size() == 2);
  HistoryRun& back = runs[0];
  history.read_cells({&back, 1});
  history.read_criteria(back);
  CHECK(back.id == 1);
  CHECK(back.uuid == "abc");
  CHECK(back.time == run.time);
  CHECK(back.kind == "perf");
  CHECK(back.command == run.command);
  CHECK(back.hosts == run.hosts);
  CHECK(back.nranks == 4);
  CHECK(back.environment == run.environment);
  CHECK(back.outcome == Outcome::fail);
  CHECK(back.exit_code == 7);
  REQUIRE(back.cells.size() == 1);
  CHECK(same_cell(back.cells[0], run.cells[0]));
  CHECK(back.cells[0].interval_s == run.cells[0].interval_s);
  CHECK(back.cells[0].median_s == 1.5e-6);
  CHECK(back.cells[0].wrong == 12);
  CHECK(back.cells[0].algorithm == "RING");
  REQUIRE(back.criteria.size() == 5);
  CHECK(back.criteria[2].outcome == Outcome::fail);
  CHECK(back.criteria[2].hosts == std::vector<std::string>{"node2"});
  CHECK(back.criteria[3].reason == "too noisy <\x01\xEF\xBF\xBD>");
  history.read_cells({&back, 1}, "broadcast");
  CHECK(back.cells.empty());
  CHECK(SqliteFile(path).run("SELECT epochs_s FROM cells LIMIT 1") == "1.25e-06 1.75e-06");
}

TEST_CASE("A run on its way to a history keeps all of a cell, and names nothing that it does not tell",
          "[history][json][unit]") {
  HistoryRun run = history_run(1, "2026-07-04 10:20:30", 2);
  Cell& cell = run.cells[0];
  cell.stage = Stage::per_host;
  cell.root = 3;
  cell.count = 2;
  cell.protocol = "LL";
  cell.straggler = 5;
  cell.ranks = {{5, "node1", 1e-6, std::nullopt, std::nullopt, 0.5}};
  const std::string text = history_run_json(run);
  const HistoryRun back = read_history_run_json(text, "r.json");
  REQUIRE(back.cells.size() == 2);
  CHECK(same_cell(back.cells[0], cell));
  CHECK(back.cells[0].protocol == "LL");
  CHECK(back.cells[0].straggler == 5);
  CHECK_FALSE(back.cells[0].ranks.at(0).late_median_s);
  CHECK(back.cells[0].ranks.at(0).last_share == 0.5);
  CHECK_FALSE(back.cells[1].stage);
  CHECK(back.cells[1].root == -1);
  CHECK(text.find("\"root\"") == text.rfind("\"root\""));  // of the first alone
}

TEST_CASE("A criterion that nobody knows is refused", "[history][unit]") {
  const TempDir dir;
  const std::string path = dir.file("h.db");
  HistoryRun run = history_run(1);
  run.criteria = output_result().criteria;
  REQUIRE(History(path, History::Mode::add).add(run) == 1);
  sqlite(path, "UPDATE criteria SET criterion='beauty'");
  History history(path, History::Mode::read);
  HistoryRun back = history.runs().at(0);
  CHECK_THROWS_WITH(history.read_criteria(back), Catch::Contains("'beauty', which is not a criterion"));
}

TEST_CASE("Eight processes that write at once lose nothing", "[history][unit][slow]") {
  const TempDir dir;
  const std::string path = dir.file("h.db");
  constexpr int kProcesses = 8;
  constexpr int kRuns = 3;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        for (int again = 0; again < kRuns; ++again) {
          check_history(path);
          HistoryRun run = history_run(1e-3, "2026-07-04 10:20:30", 10);
          run.uuid = fmt::format("{}-{}", i, again);
          History(path, History::Mode::add).add(run);
        }
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  check_whole(path);
  std::set<std::string> uuids;
  History history(path, History::Mode::read);
  for (HistoryRun& run : history.runs()) {
    uuids.insert(run.uuid);
    history.read_cells({&run, 1});
    CHECK(run.cells.size() == 10);
  }
  CHECK(uuids.size() == kProcesses * kRuns);
}

TEST_CASE("A run that is killed while it writes leaves whole runs", "[history][unit]") {
  const TempDir dir;
  const std::string path = dir.file("h.db");
  check_history(path);
  std::size_t before = 0;
  for (int round = 0; round < 6; ++round) {
    int started[2];
    REQUIRE(::pipe(started) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        for (int run = 0; run < 100'000; ++run) {
          History(path, History::Mode::add).add(history_run(1e-3, "2026-07-04 10:20:30", 40));
          if (::write(started[1], "x", 1) != 1) ::_exit(1);
        }
      } catch (const std::exception& e) {
        std::fprintf(stderr, "the process that writes: %s\n", e.what());
      }
      ::_exit(1);
    }
    ::close(started[1]);  // the end of a child that dies is seen
    // After its first run it is killed at a moment of chance.
    char byte = 0;
    CHECK(::read(started[0], &byte, 1) == 1);
    ::usleep(static_cast<useconds_t>(1300 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(started[0]);
    History history(path, History::Mode::add);  // rolls back what was under way
    std::vector<HistoryRun> runs = history.runs();
    REQUIRE(runs.size() > before);
    before = runs.size();
    history.read_cells({&runs.back(), 1});
    CHECK(runs.back().cells.size() == 40);
  }
  check_whole(path);
}

TEST_CASE("What is not a history stays as it is, with the reason", "[history][unit]") {
  const TempDir dir;
  const auto add = [&](const std::string& name) { check_history(dir.file(name)); };
  std::ofstream(dir.file("text")) << "measured yesterday, do not delete\n" << std::string(2000, 'x');
  const std::string text = read_text(dir.file("text"));
  CHECK_THROWS_WITH(add("text"), Contains("--history") && Contains("not a database"));
  CHECK(read_text(dir.file("text")) == text);
  sqlite(dir.file("other"), "CREATE TABLE mine(x); PRAGMA user_version=1");
  const std::string other = read_text(dir.file("other"));
  CHECK_THROWS_WITH(add("other"), Contains("no history of busbar"));
  CHECK(read_text(dir.file("other")) == other);
  // The journal's mode is in the file's header.
  sqlite(dir.file("log"), "PRAGMA journal_mode=WAL; CREATE TABLE mine(x)");
  const std::string log = read_text(dir.file("log"));
  CHECK_THROWS_WITH(add("log"), Contains("no history of busbar"));
  CHECK(read_text(dir.file("log")) == log);
  add("newer");
  sqlite(dir.file("newer"), "PRAGMA user_version=2");
  CHECK_THROWS_WITH(add("newer"), Contains("version 2") && Contains("newer busbar"));
  CHECK_THROWS_WITH(History(dir.file("newer"), History::Mode::read), Contains("version 2"));
  CHECK_THROWS_WITH(add("none/h.db"), Contains("unable to open"));
  CHECK_THROWS_WITH(check_history(dir.path()), Contains("--history"));
  CHECK_THROWS_WITH(History(dir.file("absent"), History::Mode::read), Contains("no such file"));
  CHECK_FALSE(std::filesystem::exists(dir.file("absent")));
  std::ofstream(dir.file("empty")) << "";
  CHECK_NOTHROW(add("empty"));
}

TEST_CASE("A history that another process keeps to itself is an error", "[history][unit]") {
  const TempDir dir;
  const std::string path = dir.file("h.db");
  check_history(path);
  const SqliteFile holder(path);
  holder.run("BEGIN EXCLUSIVE");
  for (const auto mode : {History::Mode::add, History::Mode::read}) {
    CHECK_THROWS_WITH(History(path, mode, 0.01), Contains("h.db") && Contains("locked") && Contains("fuser"));
  }
  holder.run("ROLLBACK");
  CHECK(History(path, History::Mode::add, 0.01).add(history_run(1e-3)) == 1);
}

TEST_CASE("A damaged history is an error, not a crash", "[history][unit]") {
  const TempDir dir;
  const std::string path = dir.file("h.db");
  check_history(path);
  for (int i = 0; i < 4; ++i) History(path, History::Mode::add).add(history_run(1e-3, "2026-07-04 10:20:30", 50));
  const std::string whole = read_text(path);
  for (std::size_t at = 0; at + 64 < whole.size(); at += whole.size() / 40) {
    std::string damaged = whole;
    damaged.replace(at, 64, std::string(64, '\xAA'));
    std::ofstream(path, std::ios::binary) << damaged;
    try {
      History history(path, History::Mode::read);
      for (HistoryRun& run : history.runs()) {
        history.read_cells({&run, 1});
        for (const Cell& cell : run.cells) CHECK(cell.median_s > 0);
      }
    } catch (const Error& e) {
      CHECK_THAT(e.what(), Contains("h.db"));
    }
  }
}

TEST_CASE("What never ends in a history is refused, or left out", "[history][unit]") {
  const TempDir dir;
  const std::string path = dir.file("h.db");
  check_history(path);
  const std::string endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT ";
  sqlite(path, "CREATE TRIGGER t AFTER INSERT ON runs BEGIN SELECT (" + endless + "sum(i) FROM n); END");
  CHECK(History(path, History::Mode::add).add(history_run(1e-3)) == 1);
  sqlite(path, "DROP TRIGGER t; ALTER TABLE runs RENAME TO r; CREATE VIEW runs AS " + endless +
                   "i AS id, uuid, time, kind, title, command, version, backend, library, platform, estimand, hosts, "
                   "nranks, environment, outcome, exit_code FROM n, r");
  CHECK_THROWS_WITH(runs_of(path), Contains("h.db"));
}

TEST_CASE("A full disk is one message at the start, and costs no result at the end", "[history][unit]") {
  const TempDir dir;
  const std::string path = dir.file("h.db");
  check_history(path);
  const std::string said = stderr_of(dir.file("stderr"), [&] {
    const FullDisk full(8192);
    CHECK_THROWS_WITH(check_history(dir.file("new.db")), Contains("--history"));
    CHECK_FALSE(std::filesystem::exists(dir.file("new.db")));
    CHECK_FALSE(add_to_history(path, history_run(1e-3, "2026-07-04 10:20:30", 3000)));
  });
  CHECK_THAT(said, Contains("its result stands"));
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  check_whole(path);
  CHECK(runs_of(path).empty());
  CHECK(add_to_history(path, history_run(1e-3)));
}

TEST_CASE("A benchmark's rows become cells, cycles of one row one cell", "[history][unit]") {
  HistoryRun run = history_of_run(sample_run());
  CHECK(run.hosts == std::vector<std::string>{"node0", "node1"});
  CHECK(run.environment == std::vector<std::string>{"NCCL_DEBUG=INFO"});
  CHECK(run.platform == "host memory");
  CHECK(run.estimand.empty());
  Row row = sample_row();
  row.out_of_place = sample_half(2e-6, 6);
  row.in_place.supported = false;
  for (row.cycle = 0; row.cycle < 3; ++row.cycle) {
    add_row(run, Config{}, kAllReduce, row);
    row.out_of_place.time_s *= 2;
  }
  REQUIRE(run.cells.size() == 1);
  CHECK(run.cells[0].epoch_medians_s == std::vector<double>{2e-6, 4e-6, 8e-6});
  CHECK(run.cells[0].median_s == 4e-6);
  CHECK(run.cells[0].busbw == Approx(3));
}

TEST_CASE("accept's result becomes a run, repetitions of a cell one cell", "[history][unit]") {
  AcceptResult result = output_result();
  result.cells.push_back(result.cells[1]);
  result.cells.back().repetition = 1;
  result.cells.back().epoch_medians_s = {0.003, 0.003};
  result.cells.back().median_s = 0.003;
  result.cells.back().busbw = 0.5;  // of the same bytes
  const HistoryRun run = history_of_accept(result, "accept");
  CHECK(run.nranks == 4);
  CHECK(run.kind == "accept");
  CHECK(run.outcome == Outcome::fail);
  REQUIRE(run.cells.size() == 2);
  CHECK(run.cells[1].median_s == Approx(0.002));
  CHECK(run.cells[1].busbw == Approx(0.75));
  CHECK(run.cells[1].wrong == 6);
  CHECK(run.criteria.size() == 5);
}

TEST_CASE("A run is found by number, date and counted from the last", "[history][unit]") {
  std::vector<HistoryRun> runs = launches({0, 0, 0});
  CHECK(find_run(runs, "2").id == 2);
  CHECK(find_run(runs, "last").id == 3);
  CHECK(find_run(runs, "last-2").id == 1);
  CHECK(find_run(runs, "2026-07-02").id == 2);
  CHECK(find_run(runs, "2026-07").id == 3);
  for (const char* none : {"4", "last-3", "last-", "lastly", "2025-07", "", "x", "last-99999999999999999999"}) {
    INFO(none);
    CHECK_THROWS_WITH(find_run(runs, none), Contains("there are 3 from run 1"));
  }
}

TEST_CASE("A change is one only beyond what launches differ by anyhow", "[history][unit]") {
  // Squared differences of neighbours 0 4 0 4 0 4 0 (units of 1e-4): 12 / 7 / 2, a deviation of 0.926 %. Of a new run
  // beside the median of 8: times sqrt(1 + pi / 2 / 8) and t(4) = 2.776: 2.81 %.
  const std::vector<HistoryRun> steady = launches({-0.01, -0.01, 0.01, 0.01, -0.01, -0.01, 0.01, 0.01});
  CHECK(verdict_against(steady, 1.0) == Verdict::equivalent);
  CHECK(verdict_against(steady, 1.06) == Verdict::undecided);
  CHECK(verdict_against(steady, 1.079) == Verdict::undecided);  // 1.05 exp(0.0281) = 1.0799
  CHECK(verdict_against(steady, 1.081) == Verdict::slower);
  CHECK(verdict_against(steady, 0.90) == Verdict::faster);
  // The same 10 % where launches differ by 10 %.
  const std::vector<HistoryRun> noisy = launches({-0.1, -0.1, 0.1, 0.1, -0.1, -0.1, 0.1, 0.1});
  CHECK(verdict_against(noisy, 1.10) == Verdict::undecided);
  CHECK(verdict_against(noisy, 1.5) == Verdict::slower);
  CHECK(verdict_against(noisy, 1.10, 0.5) == Verdict::equivalent);
}

TEST_CASE("A change for good does not hide itself as noise", "[history][unit]") {
  std::vector<double> logs;
  for (int i = 0; i < 16; ++i) logs.push_back((i < 8 ? 0 : 0.2) + (i % 2 == 0 ? 0.005 : -0.005));
  const std::vector<HistoryRun> runs = launches(logs);
  const std::vector<HistoryRun> others(runs.begin() + 1, runs.end() - 1);
  const HistoryComparison comparison = compare_with_history(runs.back(), std::span(runs.data(), 1), others, 0.05);
  CHECK(comparison.cells.at(0).verdict == Verdict::slower);
  // And runs within one level are alike.
  const HistoryComparison level = compare_with_history(runs[7], std::span(runs.data(), 7), {}, 0.05);
  CHECK(level.cells.at(0).verdict == Verdict::equivalent);
}

TEST_CASE("Two runs alone are judged by an assumed difference between launches", "[history][unit]") {
  // 10 % each: 1.96 sqrt(2) 10 % = 27.7 % of the logarithm, and 5 % on top.
  const std::vector<HistoryRun> one = launches({0});
  CHECK(verdict_against(one, 1.0) == Verdict::undecided);
  CHECK(verdict_against(one, 1.37) == Verdict::undecided);
  CHECK(verdict_against(one, 1.40) == Verdict::slower);
  HistoryRun after = history_run(1e-3);
  const HistoryComparison alone = compare_with_history(after, one, {}, 0.05);
  CHECK(alone.cells.at(0).assumed);
  CHECK(alone.outcome == Outcome::inconclusive);
  // Four others of this setup tell; an upgrade between two pairs of them is not noise.
  std::vector<HistoryRun> others = launches({0.002, -0.002, 0.001, 0.5, 0.502, 0.501});
  for (std::size_t i = 3; i < 6; ++i) others[i].library = "Open MPI 5.0.0";
  const HistoryComparison known = compare_with_history(after, one, others, 0.05);
  CHECK_FALSE(known.cells.at(0).assumed);
  CHECK(known.cells.at(0).deviation < 0.003);
  CHECK(known.outcome == Outcome::pass);
}

TEST_CASE("Wrong data fail however fast, and cells of one run only are counted", "[history][unit]") {
  const std::vector<HistoryRun> before = launches({0});
  HistoryRun after = history_run(1e-6, "2026-07-30 10:00:00", 2);
  after.cells[0].wrong = 1;
  const HistoryComparison comparison = compare_with_history(after, before, {}, 0.05);
  CHECK(comparison.cells.at(0).verdict == Verdict::wrong);
  CHECK(comparison.outcome == Outcome::fail);
  CHECK(comparison.only_after == 1);
  CHECK(compare_with_history(before[0], std::span(&after, 1), {}, 0.05).only_before == 1);
}

namespace {

std::vector<CellTrend> trends(const std::vector<HistoryRun>& runs) {
  TrendBook book;
  for (const HistoryRun& run : runs | std::views::reverse) book.add(run);
  return book.judge();
}

}  // namespace

TEST_CASE("Trends keep setups apart and name the latest run that is unlike", "[history][unit]") {
  std::vector<HistoryRun> runs = launches({0.01, -0.01, 0.02, -0.02, 0, 0.01, -0.01, 0.3});
  runs[0].nranks = 8;
  const std::vector<CellTrend> all = trends(runs);
  REQUIRE(all.size() == 2);
  CHECK(all[0].points.size() == 7);
  CHECK(all[1].points.size() == 1);
  CHECK(all[0].latest_is_slow());
  CHECK(all[0].points.back().run == 8);
  CHECK(all[0].earlier_median_s == Approx(1e-3 * std::exp(-0.005)));
  CHECK_FALSE(all[1].distance);
}

namespace {

/// Bursts of `size` runs five seconds apart, a day between them; the machine's memory is ten minutes. The last burst
/// has `latest` runs. Deviations: `burst` from the machine's state, `own` of each run.
std::vector<HistoryRun> bursty_runs(int bursts, int size, int latest, double burst, double own, std::uint64_t seed) {
  std::vector<HistoryRun> runs;
  SyntheticTimes noise(SyntheticTimes::Law::independent, seed);
  const auto normal = [&] { return std::log(noise.next()) / 0.1; };
  const double kept = std::exp(-5.0 / 600);
  for (int b = 0; b < bursts; ++b) {
    double state = normal();
    for (int i = 0; i < (b + 1 < bursts ? size : latest); ++i) {
      runs.push_back(history_run(1e-3 * std::exp(burst * state + own * normal()),
                                 fmt::format("2026-07-{:02} 10:00:{:02}", b + 1, 5 * i)));
      runs.back().id = static_cast<std::int64_t>(runs.size());
      state = kept * state + std::sqrt(1 - kept * kept) * normal();
    }
  }
  return runs;
}

}  // namespace

TEST_CASE("Bursts of runs are no evidence of a change", "[history][unit][slow]") {
  // Run for run, 20 to 60 % of such histories had a hint, and a run of the next day was slower in 26 to 31 %.
  constexpr int kHistories = 400;
  constexpr int kBound = 4 + 7;  // 1 % and 3.5 standard deviations of such a count
  for (const double own : {0.0, 0.02}) {
    for (const int latest : {1, 5}) {
      INFO("own " << own << ", latest " << latest);
      int flags = 0, falls = 0, levels = 0, slower = 0;
      for (int i = 0; i < kHistories; ++i) {
        const std::vector<HistoryRun> runs = bursty_runs(9, 5, latest, 0.02, own, 900 + static_cast<std::uint64_t>(i));
        const CellTrend trend = trends(runs).at(0);
        flags += trend.latest_is_slow() || trend.latest_is_fast() ? 1 : 0;
        falls += trend.p <= 0.01 ? 1 : 0;
        levels += trend.change ? 1 : 0;
        slower += compare_with_history(runs.back(), std::span(runs).first(40), {}, 0).outcome == Outcome::fail ? 1 : 0;
      }
      CHECK(flags <= kBound);
      CHECK(falls <= kBound);
      CHECK(levels <= kBound);
      CHECK(slower <= 10 + 11);  // at a nominal 2.5 %
    }
  }
}

TEST_CASE("A burst's runs are told by the first of them, and its median is what counts", "[history][unit]") {
  std::vector<HistoryRun> runs = launches({0, 0.01, 0, -0.01, 0, 0.01, 0, -0.01, 0.3});
  runs.push_back(runs.back());
  runs.back().id = 10;
  const CellTrend trend = trends(runs).at(0);
  CHECK(trend.bursts == 9);
  CHECK(trend.latest_burst == 8);
  CHECK(trend.latest_is_slow());
  CHECK(trend.earlier_median_s == Approx(1e-3));
  CHECK_THAT(trend_text({&trend, 1}, runs, true),
             Contains("run 10 (with the 1 before it within the hour) is slow: 13") && Contains("from the 8 before") &&
                 Contains("# runs that began within an hour count as one"));
}

TEST_CASE("A sparkline spans from the least to the largest", "[history][unit]") {
  CHECK(sparkline(std::vector<double>{0, 7, 3.4, 14}, 10, true) == "0427");
  CHECK(sparkline(std::vector<double>{5, 5}, 10, true) == "44");
  CHECK(sparkline(std::vector<double>{1, 2, 3}, 2, true) == "07");
  CHECK(sparkline(std::vector<double>{1, 2}, 2, false) == "\u2581\u2588");
  // 1 % of a band of 5 %: one step of seven about the middle; it read 07.
  CHECK(sparkline(std::vector<double>{100, 101}, 10, true) == "34");
  CHECK(sparkline(std::vector<double>{100, 105.3}, 10, true) == "07");
  CHECK(sparkline({}, 2, false).empty());
}

TEST_CASE("A comparison's variants become cells of their own", "[history][unit]") {
  Comparison comparison;
  comparison.collective = &kAllReduce;
  comparison.variants = {{"default", {}}, {"ring", {{"ompi.algorithm", "ring"}}}, {"none", {}}};
  ComparedCase& compared = comparison.cases.emplace_back();
  compared.row_case = sample_case(250000);  // 1e6 bytes on 2 ranks: busbw is algbw
  compared.variants.resize(3);
  compared.variants[0].median_s = 1e-3;
  compared.variants[0].rounds_s = {1e-3, 1e-3};
  compared.variants[1].median_s = 5e-4;
  compared.variants[2].why_not = "not here";
  HistoryRun run;
  add_comparison(run, comparison);
  REQUIRE(run.cells.size() == 2);
  CHECK(run.cells[0].scope == "default");
  CHECK(run.cells[0].busbw == Approx(1));
  CHECK(run.cells[0].epoch_medians_s.size() == 2);
  CHECK(run.cells[1].scope == "ring");
  CHECK(run.cells[1].busbw == Approx(2));
  CHECK_FALSE(same_cell(run.cells[0], run.cells[1]));
}
