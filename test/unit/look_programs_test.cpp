// Would catch: a stack upside down, a lost GPU that is not seen, and a program run that anybody could have replaced.

#include "look/look_parts.h"
#include "temp_dir.h"

#include <catch2/catch.hpp>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

using namespace busbar;

TEST_CASE("py-spy's stacks have the outermost call first and short names of files", "[look][stacks]") {
  const auto threads = parse_py_spy(R"([{"pid": 5, "thread_id": 139, "thread_name": "MainThread", "os_thread_id": 5,
    "active": true, "owns_gil": true, "frames": [
      {"name": "all_reduce", "filename": "/usr/lib/python3/torch/distributed/distributed_c10d.py",
       "short_filename": "torch/distributed/distributed_c10d.py", "line": 2810, "locals": null},
      {"name": "<module>", "filename": "/w/train.py", "short_filename": "train.py", "line": 9, "locals": null}]},
    {"pid": 5, "thread_id": 140, "thread_name": null, "os_thread_id": null, "owns_gil": false, "frames": []}])",
                                    false);
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].tid == 5);
  CHECK(threads[0].gil);
  CHECK(threads[0].python ==
        std::vector<std::string>{"<module> (train.py:9)", "all_reduce (distributed/distributed_c10d.py:2810)"});
  CHECK(threads[1].tid == -1);
  CHECK_THROWS(parse_py_spy("Error: Permission denied", false));
  CHECK_THROWS(parse_py_spy(R"({"frames": 3})", false));
}

TEST_CASE("gdb's stacks are read by thread", "[look][stacks]") {
  const auto threads = parse_gdb(R"(Using host libthread_db library "/lib/libthread_db.so.1".

Thread 2 (Thread 0x7f2 (LWP 43) "pt_nccl_watchdg"):
#0  0x00007f in __futex_abstimed_wait_common () from /lib/libc.so.6
#1  0x00007f in std::condition_variable::wait (this=0x1) at x.cc:5

Thread 1 (Thread 0x7f1 (LWP 42) "python3"):
#0  0x00007f in poll () from /lib/libc.so.6
#1  ncclAllReduce (sendbuff=0x1) at enqueue.cc:12
#2
)");
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].tid == 43);
  CHECK(threads[1].native == std::vector<std::string>{"", "ncclAllReduce", "poll"});
}

TEST_CASE("nvidia-smi's table and its complaints", "[look][gpus]") {
  const auto gpus = parse_nvidia_smi(
      "0, NVIDIA H100 80GB HBM3, 00000000:18:00.0, 100, 3, 112.50, 700.00, 0, GPU-aaa\n"
      "1, NVIDIA H100 80GB HBM3, 00000000:2A:00.0, [N/A], [N/A], 70.1, 700.00, [Insufficient Permissions], GPU-bbb\n"
      "2, NVIDIA H100 80GB HBM3, 00000000:3A:00.0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], "
      "[GPU is lost], GPU-ccc\n"
      "Unable to determine the device handle for GPU0000:5D:00.0: Unknown Error\n",
      "GPU-aaa, 4242\nGPU-bbb, 4343\n");
  REQUIRE(gpus.size() == 4);
  CHECK(gpus[0].busy_percent == 100);
  CHECK(gpus[0].memory_percent == 3);
  CHECK(gpus[0].power_w == 112.5);
  CHECK(gpus[0].pids == std::vector<std::int64_t>{4242});
  CHECK(gpus[0].problem.empty());
  CHECK(gpus[1].busy_percent == -1);
  CHECK(gpus[1].problem.empty());
  CHECK(gpus[2].problem == "GPU is lost");
  CHECK(gpus[3].problem.find("5D:00.0") != std::string::npos);
}

TEST_CASE("Only programs that nobody else can have replaced are run", "[look][trust]") {
  const TempDir folder;
  namespace fs = std::filesystem;
  const fs::path program = fs::path(folder.path()) / "a-stack-reader";
  std::ofstream(program) << "#!/bin/sh\n";
  chmod(program.c_str(), 0755);
  chmod(folder.path().c_str(), 0755);
  CHECK(trusted_program("a-stack-reader", folder.path()) == program.string());
  chmod(program.c_str(), 0775);
  CHECK(trusted_program("a-stack-reader", folder.path()).empty());
  chmod(program.c_str(), 0755);
  chmod(folder.path().c_str(), 01777);
  CHECK(trusted_program("a-stack-reader", folder.path()).empty());
  CHECK(trusted_program("a-stack-reader", "").empty());
  CHECK(trusted_program("sh", "").ends_with("/sh"));
}
