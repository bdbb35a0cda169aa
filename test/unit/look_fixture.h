#pragma once

// A host's /proc as a tree of files, so that the jobs of others need not run here.

#include "fake_root.h"
#include "look/look_parts.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

struct FakeProcess {
  std::int64_t pid = 0;
  std::int64_t parent = 1;
  std::string name = "python3";
  std::vector<std::string> command{"python3", "train.py"};
  std::vector<std::string> environment{};
  char state = 'S';
  std::string libraries{};  ///< lines of maps
  std::vector<int> gpus{};
  std::vector<std::string> threads{};  ///< names, besides the main one
  std::int64_t rss_kb = 100000;
};

class FakeHost {
 public:
  FakeHost& add(const FakeProcess& p) {
    const std::string folder = fmt::format("proc/{}/", p.pid);
    const auto stat = [&](std::int64_t tid, const std::string& name) {
      return fmt::format("{} ({}) {} {} 0 0 0 -1 0 0 0 0 0 150 50 30 10 20 0 {} 0 1000 0 0\n", tid, name, p.state,
                         p.parent, p.threads.size() + 1);
    };
    root_.file(folder + "stat", stat(p.pid, p.name))
        .file(folder + "status",
              fmt::format("Name:\t{}\nTracerPid:\t0\nUid:\t0\t0\t0\t0\nNSpid:\t{}\t{}\nVmRSS:\t{} kB\n"
                          "SigCgt:\t0000000000000200\nvoluntary_ctxt_switches:\t7\n",
                          p.name, p.pid, p.pid % 100, p.rss_kb))
        .file(folder + "wchan", "futex_do_wait")
        .file(folder + "cmdline", with_zeros(p.command))
        .file(folder + "environ", with_zeros(p.environment))
        .file(folder + "io", "rchar: 500\nwchar: 700\n")
        .file(folder + "limits",
              "Limit                     Soft Limit           Hard Limit           Units     \n"
              "Max open files            1024                 4096                 files     \n"
              "Max locked memory         unlimited            unlimited            bytes     \n")
        .file(folder + "maps", p.libraries);
    link(folder + "exe", "/usr/bin/" + p.name);
    link(folder + "cwd", "/work");
    link(folder + "ns/pid", "pid:[4026531836]");
    link(folder + "ns/net", "net:[4026531840]");
    link(folder + "fd/0", "/dev/null");
    for (std::size_t i = 0; i < p.gpus.size(); ++i) {
      link(fmt::format("{}fd/{}", folder, 10 + i), fmt::format("/dev/nvidia{}", p.gpus[i]));
    }
    root_.file(fmt::format("{}task/{}/stat", folder, p.pid), stat(p.pid, p.name));
    for (std::size_t i = 0; i < p.threads.size(); ++i) {
      const auto tid = p.pid + 1 + static_cast<std::int64_t>(i);
      root_.file(fmt::format("{}task/{}/stat", folder, tid), stat(tid, p.threads[i]));
    }
    return *this;
  }

  FakeHost& link(const std::string& name, const std::string& target) {
    const std::filesystem::path at = root_.path() / name;
    std::filesystem::create_directories(at.parent_path());
    std::filesystem::create_symlink(target, at);
    return *this;
  }

  FakeRoot& root() { return root_; }
  Probe probe() const { return Probe(root_.path()); }

  /// The processes of jobs, by pid.
  std::map<std::int64_t, LookProcess> jobs(const ProcessFilter& filter = {}) const {
    std::vector<SeenProcess> all;
    for (const std::int64_t pid : process_ids(probe())) all.push_back(read_process(probe(), pid, filter));
    std::map<std::int64_t, LookProcess> found;
    for (SeenProcess& p : job_processes(std::move(all), filter, 1)) found[p.look.pid] = p.look;
    return found;
  }

 private:
  static std::string with_zeros(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) (text += word) += '\0';
    return text;
  }

  FakeRoot root_;
};

inline const std::string kTorch = "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libtorch_cpu.so\n";

/// What torchrun sets.
inline std::vector<std::string> torch_variables(int rank, int nranks) {
  return {fmt::format("RANK={}", rank),
          fmt::format("LOCAL_RANK={}", rank),
          fmt::format("WORLD_SIZE={}", nranks),
          "MASTER_ADDR=10.0.0.1",
          "MASTER_PORT=29500",
          "TORCHELASTIC_RESTART_COUNT=0",
          "TORCHELASTIC_RUN_ID=run7",
          "AWS_SECRET_ACCESS_KEY=planted1",
          "NCCL_DEBUG=INFO",
          "MY_SETTING=planted2"};
}

}  // namespace busbar
