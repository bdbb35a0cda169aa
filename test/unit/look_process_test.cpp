// Would catch: a DataLoader's worker or torchrun itself counted as a rank, a node's number taken for a rank, a rank
// that is guessed, a variable that is a secret, and a process of another job.

#include "common/base/lists.h"
#include "common/base/text.h"
#include "look_fixture.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Role = LookProcess::Role;

TEST_CASE("torchrun's workers are ranks, the agent launches, and forks of a rank are its workers", "[look][roles]") {
  FakeHost host;
  host.add({.pid = 50, .name = "bash", .command = {"bash", "job.sh"}, .rss_kb = 3000});
  host.add({.pid = 100, .parent = 50, .command = {"python3", "/usr/bin/torchrun", "--nproc", "2", "train.py"}});
  for (const int rank : {0, 1}) {
    host.add({.pid = 200 + rank * 100,
              .parent = 100,
              .environment = torch_variables(rank, 2),
              .libraries = kTorch,
              .threads = {"pt_nccl_watchdg"}});
  }
  host.add({.pid = 250, .parent = 200, .environment = torch_variables(0, 2), .libraries = kTorch});
  host.add({.pid = 260,
            .parent = 200,
            .command = {"python3", "-c", "from multiprocessing.resource_tracker import main"},
            .environment = torch_variables(0, 2)});
  host.add({.pid = 270, .parent = 200, .name = "cc1plus", .command = {"cc1plus", "x.cpp"}, .rss_kb = 90000});
  host.add({.pid = 800,
            .name = ".busbar-look-77",
            .command = {"/dev/shm/.busbar-look-77"},
            .environment = torch_variables(1, 2),
            .rss_kb = 9000});
  host.add({.pid = 900, .name = "firefox", .command = {"firefox"}, .rss_kb = 900000});

  const auto found = host.jobs();
  REQUIRE(found.size() == 6);
  CHECK(found.at(100).role == Role::launcher);
  CHECK(found.at(100).rank == -1);
  for (const int rank : {0, 1}) {
    const LookProcess& p = found.at(200 + rank * 100);
    CHECK(p.role == Role::rank);
    CHECK(p.rank == rank);
    CHECK(p.rank_source == "RANK");
    CHECK(p.nranks == 2);
    CHECK(p.restarts == 0);
    CHECK(p.master == "10.0.0.1:29500");
    CHECK(p.job == "run run7");
  }
  CHECK(found.at(250).role == Role::worker);
  CHECK(found.at(250).parent == 200);
  CHECK(found.at(260).role == Role::helper);
  CHECK(found.at(270).role == Role::helper);
  CHECK(found.at(270).program == "cc1plus");
}

TEST_CASE("Of a job's environment only listed variables are kept", "[look][secrets]") {
  FakeHost host;
  host.add({.pid = 200, .environment = torch_variables(3, 4), .libraries = kTorch});
  const auto found = host.jobs();
  REQUIRE(found.size() == 1);
  const std::string all = joined_words(found.at(200).environment, "\n");
  CHECK(all.find("NCCL_DEBUG=INFO") != std::string::npos);
  CHECK(all.find("planted") == std::string::npos);
}

TEST_CASE("RANK wins over SLURM_PROCID, which is a node's number where torchrun runs", "[look][roles]") {
  FakeHost host;
  std::vector<std::string> slurm{"SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_NTASKS=2"};
  host.add({.pid = 100, .command = {"python3", "launch.py"}, .environment = slurm, .libraries = kTorch});
  std::vector<std::string> both = torch_variables(9, 16);
  both.insert(both.end(), slurm.begin(), slurm.end());
  host.add({.pid = 200, .parent = 100, .command = {"python3", "train.py"}, .environment = both, .libraries = kTorch});
  const auto found = host.jobs();
  REQUIRE(found.size() == 2);
  CHECK(found.at(100).role == Role::launcher);
  CHECK(found.at(200).rank == 9);
  CHECK(found.at(200).job == "slurm 77");
}

TEST_CASE("Ranks of Open MPI in C need no Python, and mpirun is none", "[look][roles]") {
  FakeHost host;
  host.add({.pid = 100, .name = "mpirun", .command = {"mpirun", "-np", "2", "./solve"}, .rss_kb = 9000});
  for (const int rank : {0, 1}) {
    host.add({.pid = 200 + rank,
              .parent = 100,
              .name = "solve",
              .command = {"./solve"},
              .environment = {fmt::format("OMPI_COMM_WORLD_RANK={}", rank), "OMPI_COMM_WORLD_SIZE=2",
                              "PMIX_NAMESPACE=123456"},
              .libraries = "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libmpi.so.40\n",
              .rss_kb = 8000});
  }
  const auto found = host.jobs();
  REQUIRE(found.size() == 3);
  CHECK(found.at(100).role == Role::launcher);
  CHECK(found.at(201).rank == 1);
  CHECK(found.at(201).rank_source == "OMPI_COMM_WORLD_RANK");
  CHECK(found.at(201).libraries == std::vector<std::string>{"mpi"});
}

TEST_CASE("A spawned process that holds a GPU is a rank without a number; a title may name it", "[look][roles]") {
  FakeHost host;
  host.add({.pid = 100, .command = {"python3", "serve.py"}, .libraries = kTorch});
  const std::vector<std::string> spawned{"python3", "-c", "from multiprocessing.spawn import spawn_main"};
  host.add({.pid = 200, .parent = 100, .command = spawned, .libraries = kTorch, .gpus = {3}});
  host.add({.pid = 300, .parent = 100, .command = {"ray::Worker rank 5"}, .libraries = kTorch, .gpus = {4}});
  const auto found = host.jobs();
  REQUIRE(found.contains(200));
  CHECK(found.at(200).role == Role::rank);
  CHECK(found.at(200).rank == -1);
  CHECK(found.at(200).rank_source.empty());
  CHECK(found.at(200).gpus == std::vector<int>{3});
  CHECK(found.at(300).rank == 5);
  CHECK(found.at(300).rank_source == "title");
  CHECK(found.at(100).role == Role::launcher);
}

TEST_CASE("A pattern and a Slurm job leave other jobs out", "[look][roles]") {
  FakeHost host;
  for (const int job : {7, 8}) {
    std::vector<std::string> variables = torch_variables(0, 1);
    variables.push_back(fmt::format("SLURM_JOB_ID={}", job));
    host.add({.pid = 100 * job,
              .command = {"python3", fmt::format("job{}.py", job)},
              .environment = variables,
              .libraries = kTorch});
  }
  CHECK(host.jobs().size() == 2);
  CHECK(host.jobs({.pattern = "job7.py", .slurm_job = ""}).contains(700));
  CHECK(host.jobs({.pattern = "job7.py", .slurm_job = ""}).size() == 1);
  CHECK(host.jobs({.pattern = "", .slurm_job = "8"}).size() == 1);
  CHECK(host.jobs({.pattern = "", .slurm_job = "8"}).contains(800));
  CHECK(host.jobs({.pattern = "", .slurm_job = "9"}).empty());
}

TEST_CASE("A dead worker is seen as its rank's, by its name", "[look][roles]") {
  FakeHost host;
  host.add({.pid = 200, .environment = torch_variables(0, 1), .libraries = kTorch});
  host.add({.pid = 250, .parent = 200, .name = "pt_data_worker", .command = {}, .state = 'Z', .rss_kb = 0});
  const auto found = host.jobs();
  REQUIRE(found.contains(250));
  CHECK(found.at(250).role == Role::worker);
  CHECK(found.at(250).state == 'Z');
}

TEST_CASE("What /proc says of a process becomes its record", "[look]") {
  FakeHost host;
  host.add({.pid = 4242,
            .environment = torch_variables(1, 2),
            .state = 'T',
            .libraries = kTorch,
            .gpus = {1, 0},
            .threads = {"pt_gloo_runloop"}});
  const SeenProcess seen = read_process(host.probe(), 4242, {});
  const LookProcess& p = seen.look;
  CHECK(p.state == 'T');
  CHECK(p.inner_pid == 42);
  CHECK(p.pid_namespace == 4026531836);
  CHECK(p.net_namespace == 4026531840);
  CHECK(p.cpu_s == 2.0);  // 200 ticks of 1/100 s
  CHECK(p.children_cpu_s == 0.4);
  CHECK(p.wchan == "futex_do_wait");
  CHECK(p.bytes_read == 500);
  CHECK(p.bytes_written == 700);
  CHECK(p.open_files == 3);
  CHECK(p.open_files_limit == 1024);
  CHECK(p.memlock_limit == -1);
  CHECK(p.rss_bytes == 100000 * 1024);
  CHECK(p.gpus == std::vector<int>{0, 1});
  REQUIRE(p.threads.size() == 2);
  CHECK(p.threads[1].name == "pt_gloo_runloop");
  CHECK(read_process(host.probe(), 4243, {}).look.program.empty());
}

TEST_CASE("Growth is the difference of two looks, and -1 where one of them could not be read", "[look]") {
  LookProcess before, after;
  before.state = before.state_before = 'S';
  before.tracer_before = before.tracer = 0;
  after.state = after.state_before = 'T';
  after.tracer_before = after.tracer = 99;
  before.cpu_s = 10;
  after.cpu_s = 10.5;
  before.children_cpu_s = 1;
  after.children_cpu_s = 1.75;
  before.bytes_read = 100;
  after.bytes_read = 160;
  before.bytes_written = -1;
  after.bytes_written = 5;
  before.rss_bytes = 50;
  after.rss_bytes = 30;
  before.threads = {{.tid = 1,
                     .name = "a",
                     .state = 'S',
                     .wchan = "",
                     .cpu_s = 1,
                     .slept = 3,
                     .moved = 40,
                     .python = {"f (a.py:1)"},
                     .python_before = {},
                     .gil = false,
                     .native = {}}};
  after.threads = {{.tid = 1,
                    .name = "a",
                    .state = 'S',
                    .wchan = "",
                    .cpu_s = 1.25,
                    .slept = 3,
                    .moved = 90,
                    .python = {"g (a.py:2)"},
                    .python_before = {},
                    .gil = false,
                    .native = {}}};
  const LookProcess grown = process_growth(before, after);
  CHECK(grown.state_before == 'S');
  CHECK(grown.state == 'T');
  CHECK(grown.tracer_before == 0);
  CHECK(grown.tracer == 99);
  CHECK(grown.cpu_s == 0.5);
  CHECK(grown.children_cpu_s == 0.75);
  CHECK(grown.bytes_read == 60);
  CHECK(grown.bytes_written == -1);
  CHECK(grown.rss_growth == -20);
  CHECK(grown.threads[0].cpu_s == 0.25);
  CHECK(grown.threads[0].slept == 0);
  CHECK(grown.threads[0].moved == 50);
  CHECK(grown.threads[0].python_before == std::vector<std::string>{"f (a.py:1)"});
}

TEST_CASE("Sockets that wait are reported, and those in order and of others are not", "[look][sockets]") {
  const std::string head =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
  const auto row = [](const char* state, const char* queues, const char* times, int inode) {
    return fmt::format("   0: 0100000A:1092 0909000A:733C {} {} 01:00000014 {} 1000 0 {} 1 0\n", state, queues, times,
                       inode);
  };
  const std::string table =
      head + row("02", "00000001:00000000", "00000006", 5) + row("01", "00000000:00000000", "00000000", 6) +
      row("08", "00000000:00000001", "00000000", 7) + row("01", "0002BF20:00000000", "00000007", 8) +
      row("02", "00000001:00000000", "00000006", 99);
  std::vector<SeenFile> files;
  for (const int inode : {5, 6, 7, 8}) files.push_back({inode, fmt::format("socket:[{}]", inode), false});
  const std::vector<LookSocket> found =
      attention_sockets(files, head + row("02", "00000001:00000000", "00000005", 5), table);
  REQUIRE(found.size() == 3);
  CHECK(found[0].state == "SYN_SENT");
  CHECK(found[0].remote == "10.0.9.9:29500");
  CHECK(found[0].local == "10.0.0.1:4242");
  CHECK(found[0].retransmits == 6);
  CHECK(found[0].same_in_both);
  CHECK(found[1].state == "CLOSE_WAIT");
  CHECK(found[1].unread == 1);
  CHECK_FALSE(found[1].same_in_both);
  CHECK(found[2].unsent == 180000);
}

TEST_CASE("In a container any process may have the pid of the kernel's threads", "[look][roles]") {
  FakeHost host;
  host.add({.pid = 2, .command = {"python3", "launch.py"}});
  host.add({.pid = 7, .parent = 2, .environment = torch_variables(0, 1), .libraries = kTorch});
  CHECK(host.jobs().contains(7));
}

TEST_CASE("A batch script in Python is no rank, though it has SLURM_PROCID", "[look][roles]") {
  FakeHost host;
  std::vector<std::string> batch{"SLURM_JOB_ID=77", "SLURM_PROCID=0", "SLURM_NTASKS=2"};
  host.add({.pid = 100, .command = {"python3", "submit.py"}, .environment = batch});
  batch.emplace_back("SLURM_STEP_ID=0");
  host.add({.pid = 200, .command = {"python3", "train.py"}, .environment = batch, .libraries = kTorch});
  const auto found = host.jobs();
  REQUIRE(found.size() == 1);
  CHECK(found.at(200).rank == 0);
}

TEST_CASE("Jobs that other commands of busbar launched are jobs, and what triage started is none", "[look][roles]") {
  FakeHost host;
  host.add({.pid = 50, .name = "busbar", .command = {"busbar", "repeat", "--", "mpirun", "./train"}, .rss_kb = 3000});
  host.add({.pid = 200, .parent = 50, .environment = torch_variables(0, 1), .libraries = kTorch});
  host.add({.pid = 60, .name = "busbar", .command = {"busbar", "triage", "--local"}, .rss_kb = 3000});
  host.add({.pid = 300, .parent = 60, .environment = torch_variables(0, 1), .libraries = kTorch});
  const auto found = host.jobs();
  CHECK(found.contains(200));
  CHECK_FALSE(found.contains(300));
}

TEST_CASE("Of thousands of threads the main one is read, and of many mappings the last", "[look]") {
  FakeHost host;
  std::string maps;
  while (maps.size() < (2 << 20)) maps += "7f00-7f01 rw-p 0 00:00 1 /dev/shm/pinned_memory_of_a_data_loader\n";
  host.add({.pid = 999, .libraries = maps + kTorch, .threads = std::vector<std::string>(1100, "worker")});
  const SeenProcess seen = read_process(host.probe(), 999, {});
  REQUIRE(seen.look.threads.size() == 1024);
  CHECK(seen.look.threads.front().tid == 999);
  CHECK(contains(seen.look.libraries, std::string("torch")));
}

TEST_CASE("A process that was replaced on disk keeps its name", "[look][roles]") {
  FakeHost host;
  host.add({.pid = 100, .name = "mpirun (deleted)", .command = {"mpirun", "./solve"}});
  CHECK(read_process(host.probe(), 100, {}).look.program == "mpirun");
}

TEST_CASE("The second look keeps who a process is, and knows one that took its pid", "[look]") {
  FakeHost host;
  host.add({.pid = 200, .environment = torch_variables(3, 4), .libraries = kTorch});
  const SeenProcess first = read_process(host.probe(), 200, {});
  host.root().file("proc/200/environ", "").file("proc/200/maps", "");  // these are not read again
  host.root().file("proc/200/io", "rchar: 900\nwchar: 800\n");
  const SeenProcess second = read_again(host.probe(), first);
  CHECK(second.look.state == 'S');
  CHECK(second.look.rank == 3);
  CHECK(second.look.libraries == first.look.libraries);
  CHECK(second.look.threads.size() == 1);
  CHECK(process_growth(first.look, second.look).bytes_read == 400);
  SeenProcess other = first;
  other.since_boot_s -= 1;
  CHECK(read_again(host.probe(), other).look.state == 'X');
  std::filesystem::remove(host.root().path() / "proc/200/stat");
  CHECK(read_again(host.probe(), first).look.state == 'X');
}

TEST_CASE("NCCL's RAS is asked on the hosts of the first and the last rank, or of ranks without numbers",
          "[look][ras]") {
  const auto asked = [](int rank) {
    SeenProcess p;
    p.look.role = Role::rank;
    p.look.rank = rank;
    p.look.nranks = 16;
    return asks_ras({p});
  };
  CHECK(asked(0));
  CHECK(asked(15));
  CHECK(asked(-1));
  CHECK_FALSE(asked(7));
  CHECK_FALSE(asks_ras({}));
}
