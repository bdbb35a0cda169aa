// Catches: a record that cannot be read just when it is needed (its writer frozen in the middle of a write, killed, its
// shared memory full), that says something else than what was written, that others may read or lose, and a reader that
// believes damaged bytes or reads beyond them.

#include "common/watch/flight_record.h"

#include "common/watch/flight_layout.h"
#include "common/watch/local_evidence.h"
#include "full_disk.h"
#include "golden.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

using namespace busbar;

namespace {

const FlightOwner kOwner{"77.0", "node3", 13, 16, "all_reduce_perf -b 8"};
const CalledOperation kCall{2, "all_reduce", 16777216, "float", "sum", -1, 67108864, true};

void count(FlightRecord& record, int lane, int times) {
  for (int i = 0; i < times; ++i) record.lanes()[lane].count();
}

std::string bytes_of(const std::filesystem::path& file) { return read_text(file.string()); }

std::optional<FlightState> parse(const std::string& bytes) {
  // A block of exactly that size: the address sanitizer sees a step beyond it.
  std::vector<std::byte> exact(bytes.size());
  if (!bytes.empty()) std::memcpy(exact.data(), bytes.data(), bytes.size());
  return parse_flight(exact, flight_clock_ns());
}

/// A file with these bytes.
void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// The record's bytes in place of a process that wrote them: to be changed as only a test may.
struct Editable {
  explicit Editable(const std::string& bytes) : words(bytes.size() / 8) {
    std::memcpy(words.data(), bytes.data(), bytes.size());
  }
  FlightLayout& layout() { return *reinterpret_cast<FlightLayout*>(words.data()); }
  std::string bytes() const { return {reinterpret_cast<const char*>(words.data()), words.size() * 8}; }
  void sign_head() {
    layout().head.check = flight_checksum(&layout().head, offsetof(FlightHead, check), kFlightVersion);
  }
  std::vector<std::uint64_t> words;
};

/// A pid of a process that is gone.
pid_t dead_pid() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

std::map<std::string, std::string> environment;
const char* from_environment(const char* variable) {
  const auto at = environment.find(variable);
  return at != environment.end() ? at->second.c_str() : nullptr;
}

}  // namespace

TEST_CASE("what was written into a flight record is read from its file", "[flight_record]") {
  const TempDir folder;
  FlightRecord record(kOwner, folder.path());
  REQUIRE(record.path() == folder.file("busbar." + std::to_string(getuid()) + ".77.0.node3.13"));
  count(record, 0, 3);
  record.begin_step(Phase::timed_loop, "the timed loop of all_reduce", &kCall, 25, 30);
  count(record, 0, 2);
  record.set_error("remote process exited");

  const std::optional<FlightState> read = read_flight(record.path());
  REQUIRE(read);
  CHECK(read->jobid == "77.0");
  CHECK(read->host == "node3");
  CHECK(read->rank == 13);
  CHECK(read->nprocs == 16);
  CHECK(read->pid == getpid());
  CHECK(read->pid_start == process_start(getpid()));
  CHECK(read->pid_start > 0);
  CHECK(read->command == "all_reduce_perf -b 8");
  CHECK(std::abs(read->started_unix_s - std::time(nullptr)) < 600);
  CHECK(read->phase == Phase::timed_loop);
  CHECK(read->step == "the timed loop of all_reduce");
  CHECK(read->call == kCall);
  CHECK(read->entered == 5);
  CHECK(read->step_first == 3);
  CHECK(read->step_calls == 25);
  CHECK(read->limit_s == 30);
  CHECK(read->error == "remote process exited");
  CHECK(read->ending == Ending::none);
  REQUIRE(read->finished.size() == 1);
  CHECK(read->finished[0].phase == Phase::starting);
  CHECK(read->finished[0].last_entered == 3);
  CHECK(read->finished[0].begun_age_s >= read->finished[0].ended_age_s);
  CHECK(record.state().entered == 5);
}

TEST_CASE("a record remembers the last sixteen steps, and how the process left", "[flight_record]") {
  const TempDir folder;
  FlightRecord record(kOwner, folder.path());
  for (int step = 1; step <= 40; ++step) {
    record.begin_step(step % 2 == 0 ? Phase::checking : Phase::timed_loop, std::to_string(step), &kCall, 1, 0);
    count(record, 0, 1);
    record.begin_step(Phase::resting, "rest", nullptr, 0, 0);
  }
  record.end(Ending::hung);
  const FlightState state = record.state();
  CHECK(state.phase == Phase::resting);
  CHECK_FALSE(state.call);
  CHECK(state.ending == Ending::hung);
  REQUIRE(state.finished.size() == 16);  // rests are nothing that was done
  CHECK(state.finished.front().last_entered == 25);
  CHECK(state.finished.back().last_entered == 40);
  CHECK(state.finished.back().phase == Phase::checking);
  CHECK(state.finished.back().collective == "all_reduce");
  CHECK(state.finished.back().nbytes == 67108864);
  record.end(Ending::good);
  CHECK(record.state().phase == Phase::ended);
}

TEST_CASE("a process has entered what the last of its lanes has", "[flight_record]") {
  const TempDir folder;
  FlightRecord record(kOwner, folder.path());
  count(record, 0, 7);
  count(record, 1, 5);
  CHECK(record.state().entered == 5);
  record.set_lanes(3);  // the third has not begun
  CHECK(record.state().entered == 0);
  count(record, 2, 6);
  CHECK(record.state().entered == 5);
  record.set_nprocs(99);
  CHECK(record.state().nprocs == 99);
}

TEST_CASE("texts that are too long are cut, and nothing in them commands a terminal", "[flight_record]") {
  const TempDir folder;
  FlightRecord record({std::string(500, 'j') + "/../x", "a/b", 1, 1, std::string(5000, 'c')}, folder.path());
  CHECK(record.path().parent_path() == folder.path());
  record.begin_step(Phase::output, "\033[2J" + std::string(5000, 's'), nullptr, 0, 1.0 / 0.0);
  const FlightState state = record.state();
  CHECK(state.host == "a/b");
  CHECK(state.command == std::string(248, 'c'));
  CHECK(state.step == "?[2J" + std::string(252, 's'));
  CHECK(state.limit_s == 0);
}

TEST_CASE("idle is the time since the step or a counter changed, as the beats saw it", "[flight_record]") {
  const TempDir folder;
  FlightRecord record(kOwner, folder.path());
  Editable edit(bytes_of(record.path()));
  const std::int64_t second = 1'000'000'000;
  const auto idle_at = [&](std::int64_t seconds) {
    const std::string bytes = edit.bytes();
    return parse_flight(std::as_bytes(std::span(bytes)), seconds * second).value();
  };
  FlightBeat beat = edit.layout().beat.read()->value;
  beat.beat_ns = 100 * second;
  beat.changed_ns = 90 * second;
  edit.layout().beat.write(beat);
  CHECK(idle_at(103).heartbeat_age_s == 3);
  CHECK(idle_at(103).idle_s == 13);
  CHECK(idle_at(50).idle_s == 0);  // another clock: never negative
  edit.layout().lanes[0].count();  // since its last beat
  CHECK(idle_at(103).idle_s == 3);

  record.beat();
  const std::int64_t changed = Editable(bytes_of(record.path())).layout().beat.read()->value.changed_ns;
  record.beat();
  CHECK(Editable(bytes_of(record.path())).layout().beat.read()->value.changed_ns == changed);
  count(record, 0, 1);
  record.beat();
  const std::int64_t counted = Editable(bytes_of(record.path())).layout().beat.read()->value.changed_ns;
  CHECK(counted > changed);
  record.begin_step(Phase::output, "output", nullptr, 0, 0);
  record.beat();
  CHECK(Editable(bytes_of(record.path())).layout().beat.read()->value.changed_ns > counted);
}

TEST_CASE("a record of the first version is read, its pid's namespace is not known", "[flight_record]") {
  const TempDir folder;
  const FlightRecord record(kOwner, folder.path());
  CHECK(record.state().pid_namespace == own_pid_namespace());
  Editable edit(bytes_of(record.path()));
  edit.layout().head.version = 1;
  edit.layout().head.check = flight_checksum(&edit.layout().head, offsetof(FlightHead, check), 1);
  const std::optional<FlightState> first = parse(edit.bytes());
  REQUIRE(first);
  CHECK(first->pid_namespace == 0);
  CHECK(first->command == kOwner.command);
  edit.layout().head.version = 3;
  edit.layout().head.check = flight_checksum(&edit.layout().head, offsetof(FlightHead, check), 3);
  CHECK_FALSE(parse(edit.bytes()));
}

TEST_CASE("while its watcher itself did not run, a process was suspended and not idle", "[flight_record]") {
  const TempDir folder;
  FlightRecord record(kOwner, folder.path());
  const std::int64_t second = 1'000'000'000, now = flight_clock_ns();
  const auto idle_after = [&](std::int64_t silent_s) {
    Editable edit(bytes_of(record.path()));
    FlightBeat beat = edit.layout().beat.read()->value;
    beat.beat_ns = now - silent_s * second;
    beat.changed_ns = beat.beat_ns - 4 * second;
    edit.layout().beat.write(beat);
    // Without truncating: it is mapped.
    std::fstream(record.path(), std::ios::in | std::ios::out | std::ios::binary) << edit.bytes();
    record.beat();
    return record.state().idle_s;
  };
  CHECK(idle_after(60) == Approx(4).margin(1));
  CHECK(idle_after(1) == Approx(5).margin(1));
}

TEST_CASE("a writer that is frozen anywhere in the middle of a write leaves what was before", "[flight_record]") {
  const TempDir folder;
  FlightRecord record(kOwner, folder.path());
  record.begin_step(Phase::timed_loop, "first", &kCall, 25, 30);
  const std::string before = bytes_of(record.path());
  record.begin_step(Phase::checking, "second", nullptr, 1, 60);
  const std::string after = bytes_of(record.path());
  REQUIRE(before.size() == after.size());
  int first = 0, second = 0;
  // Whatever part of the words has arrived, from the front or from the back.
  for (std::size_t cut = 0; cut <= before.size(); cut += 8) {
    for (const std::string& mixed :
         {after.substr(0, cut) + before.substr(cut), before.substr(0, cut) + after.substr(cut)}) {
      const std::optional<FlightState> state = parse(mixed);
      REQUIRE(state);
      REQUIRE((state->step == "first" || state->step == "second"));
      const bool is_first = state->step == "first";
      ++(is_first ? first : second);
      REQUIRE(state->phase == (is_first ? Phase::timed_loop : Phase::checking));
      REQUIRE(state->limit_s == (is_first ? 30 : 60));
      REQUIRE(state->call.has_value() == is_first);
      REQUIRE(state->finished.size() == (is_first ? 1 : 2));
    }
  }
  CHECK(first > 0);
  CHECK(second > 0);
}

TEST_CASE("a reader beside a writer never sees halves of two steps", "[flight_record]") {
  const TempDir folder;
  FlightRecord record(kOwner, folder.path());
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) record.beat();
  });
  std::thread writer([&] {
    for (int step = 0; step < 20000; ++step) {
      const std::string text(1 + step % 250, static_cast<char>('a' + step % 26));
      record.begin_step(Phase::timed_loop, text, &kCall, text.size(), 0);
    }
    stop = true;
  });
  int reads = 0, torn = 0;
  while (!stop) {
    for (const std::optional<FlightState>& state : {read_flight(record.path()), std::optional(record.state())}) {
      if (!state || state->step == "starting") continue;
      ++reads;
      if (state->step != std::string(state->step_calls, state->step[0])) ++torn;
    }
  }
  writer.join();
  watcher.join();
  CHECK(reads > 0);
  CHECK(torn == 0);
}

TEST_CASE("a truncated record is none", "[flight_record]") {
  const TempDir folder;
  FlightRecord record(kOwner, folder.path());
  const std::string whole = bytes_of(record.path());
  REQUIRE(parse(whole));
  for (std::size_t length = 0; length < whole.size(); ++length) REQUIRE_FALSE(parse(whole.substr(0, length)));
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, whole.size() - 1}) {
    write(folder.file("busbar.cut"), whole.substr(0, length));
    CHECK_FALSE(read_flight(folder.file("busbar.cut")));
  }
  CHECK_FALSE(read_flight(folder.path()));
  CHECK_FALSE(read_flight(folder.file("absent")));
}

TEST_CASE("a flipped bit makes a record none, or the one before, or changes a number that nothing protects",
          "[flight_record]") {
  const TempDir folder;
  FlightRecord record(kOwner, folder.path());
  record.begin_step(Phase::timed_loop, "second", &kCall, 25, 30);
  record.beat();
  const std::string whole = bytes_of(record.path());
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const std::optional<FlightState> state = parse(flipped);
    if (bit / 8 < sizeof(FlightHead)) {
      REQUIRE_FALSE(state);
      continue;
    }
    REQUIRE(state);
    REQUIRE((state->step == "second" || state->step == "starting"));
    REQUIRE(state->host == "node3");
    REQUIRE((state->step == "starting" || state->call == kCall));
    REQUIRE(state->idle_s >= 0);
  }
}

TEST_CASE("a hostile record with right checksums is refused or tamed", "[flight_record]") {
  const TempDir folder;
  FlightRecord record(kOwner, folder.path());
  const std::string whole = bytes_of(record.path());
  Editable other_version(whole);
  other_version.layout().head.version = kFlightVersion + 1;
  other_version.sign_head();
  CHECK_FALSE(parse(other_version.bytes()));
  Editable negative_rank(whole);
  negative_rank.layout().head.rank = -1;
  negative_rank.sign_head();
  CHECK_FALSE(parse(negative_rank.bytes()));
  Editable phase(whole);
  FlightStep step = phase.layout().step.read()->value;
  step.phase = 200;
  phase.layout().step.write(step);
  CHECK_FALSE(parse(phase.bytes()));
  Editable many(whole);
  step.phase = 1;
  step.nfinished = ~std::uint64_t{0};
  step.lanes = -5;
  step.begun_ns = INT64_MIN;
  std::memset(step.text, 'x', sizeof step.text);  // no end
  many.layout().step.write(step);
  const std::optional<FlightState> state = parse(many.bytes());
  REQUIRE(state);
  CHECK(state->finished.size() == 16);
  CHECK(state->step == std::string(256, 'x'));
}

TEST_CASE("a killed process's record is read by another and says that it is gone", "[flight_record]") {
  const TempDir folder;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    FlightRecord record(kOwner, folder.path());
    record.begin_step(Phase::timed_loop, "its last", &kCall, 25, 30);
    count(record, 0, 42);
    if (::write(ready[1], "x", 1) != 1) _exit(1);
    alarm(600);  // should nobody kill it
    pause();
    _exit(1);
  }
  close(ready[1]);  // the end of a child that dies is seen
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  const std::filesystem::path folders[]{folder.path()};
  const std::vector<FlightState> flights = read_flights(folders, "77.0");
  REQUIRE(flights.size() == 1);
  CHECK(flights[0].pid == child);
  CHECK(flights[0].step == "its last");
  CHECK(flights[0].entered == 42);
  CHECK(process_start(child) != flights[0].pid_start);
  // Fresh: it stays for the post-mortem. The next launch of that name takes its place.
  CHECK(remove_old_flights(folders) == 0);
  const FlightRecord next(kOwner, folder.path());
  CHECK(next.state().entered == 0);
  CHECK(read_flights(folders, "77.0").size() == 1);
}

TEST_CASE("two live processes that are told the same job and rank keep a record each", "[flight_record]") {
  const TempDir folder;
  const FlightRecord first(kOwner, folder.path());
  {
    const FlightRecord second(kOwner, folder.path());
    CHECK(second.path() == first.path().string() + "." + std::to_string(getpid()));
  }
  CHECK(read_flight(first.path()));
}

TEST_CASE("only its user may read a record, and it goes with its process unless kept", "[flight_record]") {
  const TempDir folder;
  const mode_t old_mask = umask(0);
  std::filesystem::path path;
  {
    FlightRecord record(kOwner, folder.path());
    path = record.path();
    struct stat info {};
    REQUIRE(stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0600);
    CHECK(info.st_size <= 64 * 1024);
    CHECK(info.st_blocks * 512 >= info.st_size);  // reserved, not a hole
    const pid_t child = fork();
    if (child == 0) {
      record.~FlightRecord();  // a child that ends in good order is not the process
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    CHECK(std::filesystem::exists(path));
  }
  umask(old_mask);
  CHECK_FALSE(std::filesystem::exists(path));
  {
    FlightRecord record(kOwner, folder.path());
    record.keep();
  }
  CHECK(std::filesystem::exists(path));
}

TEST_CASE("a record goes to the temporary folder or private memory where shared memory has no room",
          "[flight_record]") {
  const TempDir temporary;
  const char* old = std::getenv("TMPDIR");
  const std::string saved = old != nullptr ? old : "";
  setenv("TMPDIR", temporary.path().c_str(), 1);
  {
    FlightRecord record(kOwner, temporary.file("absent"));
    CHECK(record.path().parent_path() == temporary.path());
    count(record, 0, 1);
    CHECK(read_flight(record.path())->entered == 1);
  }
  setenv("TMPDIR", temporary.file("absent").c_str(), 1);
  {
    FlightRecord record(kOwner, temporary.file("absent"));
    CHECK(record.path().empty());
    count(record, 0, 1);
    record.begin_step(Phase::output, "output", nullptr, 0, 0);
    CHECK(record.state().entered == 1);
    CHECK(record.state().step == "output");
  }
  setenv("TMPDIR", temporary.path().c_str(), 1);
  {
    // 8 KiB and the record does not fit: what posix_fallocate says, and no SIGBUS later.
    const FullDisk full(4096);
    const FlightRecord record(kOwner, temporary.path());
    CHECK(record.path().empty());
  }
  CHECK(std::filesystem::is_empty(temporary.path()));
  saved.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", saved.c_str(), 1);
}

TEST_CASE("the records of a job are read in the order of ranks, others and foreign files are passed by",
          "[flight_record]") {
  const TempDir one, two;
  const FlightRecord last({"5", "a", 10, 0, ""}, one.path());
  const FlightRecord first({"5", "b", 2, 0, ""}, two.path());
  const FlightRecord other({"55", "a", 3, 0, ""}, one.path());
  write(one.file("busbar.junk"), std::string(sizeof(FlightLayout), 'x'));
  std::filesystem::create_symlink(first.path(), one.file("busbar.link"));
  REQUIRE(mkfifo(one.file("busbar.pipe").c_str(), 0600) == 0);
  const std::filesystem::path folders[]{one.path(), two.path(), one.file("absent")};
  const std::vector<FlightState> job = read_flights(folders, "5");
  REQUIRE(job.size() == 2);
  CHECK(job[0].rank == 2);
  CHECK(job[1].rank == 10);
  CHECK(read_flights(folders, "").size() == 3);
}

TEST_CASE("of a named job only this user's records are evidence, for root too", "[flight_record]") {
  const TempDir folder;
  const FlightRecord record(kOwner, folder.path());
  const std::vector<std::filesystem::path> folders{folder.path()};
  CHECK(read_flights(folders, kOwner.jobid).size() == 1);
  if (chown(record.path().c_str(), 12345, static_cast<gid_t>(-1)) != 0) return;  // not root
  CHECK(read_flights(folders, kOwner.jobid).empty());
  CHECK(read_flights(folders, "").size() == 1);  // for who asks for a folder's
}

TEST_CASE("only this user's dead records that are older than a day are removed", "[flight_record]") {
  const TempDir folder;
  char host[256]{};
  REQUIRE(gethostname(host, sizeof host - 1) == 0);
  const std::string mine = "busbar." + std::to_string(getuid()) + ".";
  FlightRecord record({"9", host, 1, 1, ""}, folder.path());
  const std::string whole = bytes_of(record.path());
  const auto plant = [&](const std::string& name, std::int64_t age_s, bool alive, const char* of_host) {
    Editable edit(whole);
    FlightBeat beat = edit.layout().beat.read()->value;
    beat.beat_unix_s = std::time(nullptr) - age_s;
    edit.layout().beat.write(beat);
    edit.layout().beat.write(beat);  // both copies
    if (!alive) edit.layout().head.pid = dead_pid();
    std::memset(edit.layout().head.host, 0, sizeof edit.layout().head.host);
    std::strncpy(edit.layout().head.host, of_host, sizeof edit.layout().head.host - 1);
    edit.layout().head.boot ^= 1;  // of an earlier start of this machine
    edit.sign_head();
    write(folder.file(name), edit.bytes());
  };
  constexpr std::int64_t kDay = 24 * 3600;
  plant(mine + "old.dead", kDay + 60, false, host);
  plant(mine + "old.alive", kDay + 60, true, host);
  plant(mine + "fresh.dead", kDay - 60, false, host);
  plant(mine + "old.elsewhere", kDay + 60, false, "elsewhere");
  plant("busbar." + std::to_string(getuid() + 1) + ".old.dead", kDay + 60, false, host);
  write(folder.file(mine + "junk"), "junk");
  const std::filesystem::path folders[]{folder.path()};
  CHECK(remove_old_flights(folders) == 1);
  CHECK_FALSE(std::filesystem::exists(folder.file(mine + "old.dead")));
  CHECK(std::filesystem::exists(folder.file(mine + "junk")));
  CHECK(std::filesystem::exists(record.path()));
  CHECK(remove_old_flights(folders) == 0);
  // Ages of a record from an earlier start count from its own last beat.
  CHECK(read_flight(folder.file(mine + "fresh.dead"))->heartbeat_age_s == 0);
}

TEST_CASE("a launch has the same name on all its ranks and another than its neighbours in the batch job",
          "[flight_record]") {
  const auto jobid = [](std::map<std::string, std::string> set) {
    environment = std::move(set);
    return environment_jobid(from_environment);
  };
  CHECK(jobid({}).empty());
  CHECK(jobid({{"SLURM_JOB_ID", "12"}}).empty());
  CHECK(jobid({{"PBS_JOBID", "12.server"}}).empty());
  CHECK(jobid({{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "3"}}) == "12.0");
  CHECK(jobid({{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "4294967290"}, {"SLURM_PROCID", "0"}}).empty());
  CHECK(jobid({{"SLURM_JOB_ID", "12"},
               {"SLURM_STEP_ID", "3"},
               {"SLURM_PROCID", "3"},
               {"PMIX_NAMESPACE", "slurm.pmix.12.3"}}) == "slurm.pmix.12.3");
  // Open MPI 4.1's mpirun in a Slurm job: the daemons' steps differ from host to host.
  for (const char* step : {"0", "1"}) {
    CHECK(jobid({{"SLURM_JOB_ID", "12"},
                 {"SLURM_STEP_ID", step},
                 {"SLURM_PROCID", "0"},
                 {"PMIX_NAMESPACE", "157941761"},
                 {"OMPI_MCA_ess_base_jobid", "157941761"}}) == "12.157941761");
  }
  CHECK(jobid({{"OMPI_MCA_ess_base_jobid", "157941761"}}) == "157941761");
  CHECK(jobid({{"PBS_JOBID", "12.server"}, {"PMIX_NAMESPACE", "prterun-a/b@1"}}) == "12.server.prterun-a_b_1");
  CHECK(jobid({{"LSB_JOBID", "7"}, {"OMPI_MCA_ess_base_jobid", "5"}}) == "7.5");
  CHECK(jobid({{"FLUX_JOB_ID", "f2x"}, {"FLUX_TASK_RANK", "0"}}) == "f2x");
  CHECK(jobid({{"FLUX_JOB_ID", "f2x"}}).empty());
}
