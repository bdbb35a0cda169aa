#include "common/base/error.h"
#include "common/base/text.h"
#include "common/processes/child.h"
#include "common/record/json_values.h"
#include "look/look_parts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace busbar {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFrames = 128;
constexpr std::size_t kLongestFrame = 160;

/// Whether only root, and this user if `own_too`, can have written it.
bool is_safe(const std::string& path, bool own_too) {
  struct stat info {};
  constexpr mode_t kByOthers = S_IWGRP | S_IWOTH;
  if (stat(path.c_str(), &info) != 0 || (info.st_mode & kByOthers) != 0) return false;
  return info.st_uid == 0 || (own_too && info.st_uid == geteuid());
}

bool is_safe_program(const std::string& path, bool own_too) {
  std::error_code unknown;
  return fs::is_regular_file(path, unknown) && access(path.c_str(), X_OK) == 0 && is_safe(path, own_too);
}

constexpr double kPatience = 8;  ///< [s] of a program

ChildResult output_of(const std::vector<std::string>& command) {
  // The limit of our own memory is not one for other programs.
  rlimit memory{};
  getrlimit(RLIMIT_DATA, &memory);
  memory.rlim_cur = memory.rlim_max;
  setrlimit(RLIMIT_DATA, &memory);
  ChildResult result = run_child(command, {.environment = {{"DEBUGINFOD_URLS", ""}, {"LC_ALL", "C"}},
                                           .timeout_s = kPatience,
                                           .grace_s = 0.5,
                                           .takes_signals = false});
  if (result.timed_out) throw_not_possible(fmt::format("{}: no answer in {} s", command.front(), kPatience));
  return result;
}

/// Throws with the program's reason if it failed.
void check(const std::string& program, const ChildResult& result) {
  if (result.good()) return;
  std::string_view why = trimmed(result.err.empty() ? result.out : result.err);
  why = why.substr(0, why.find('\n'));  // a backtrace follows
  throw_not_possible(fmt::format("{}: {}", fs::path(program).filename().string(),
                                 why.empty() ? describe_end(result, kPatience) : why.substr(0, kLongestFrame)));
}

double number_in(std::string_view text) { return leading_number<double>(trimmed(text)).value_or(-1); }

}  // namespace

std::string trusted_program(const std::string& name, const std::string& own_folder) {
  const std::string own = own_folder + "/" + name;
  if (!own_folder.empty() && is_safe(own_folder, true) && is_safe_program(own, true)) return own;
  const char* path = std::getenv("PATH");
  const std::string folders = std::string("/usr/local/bin:/usr/bin:/bin:") + (path != nullptr ? path : "");
  for (const std::string_view folder : split_text(folders, ':')) {
    const std::string program = fmt::format("{}/{}", folder, name);
    if (folder.starts_with('/') && is_safe_program(program, false) && is_safe(std::string(folder), false))
      return program;
  }
  return {};
}

std::string py_spy_for(const LookProcess& process, unsigned uid, const std::string& trusted) {
  if (!trusted.empty() || uid != geteuid()) return trusted;
  // The python of a virtual environment is a link; the first word of the command shows its folder.
  std::error_code unknown;
  const fs::path first = process.command.substr(0, process.command.find(' '));
  for (const fs::path& python : {first, fs::read_symlink(fmt::format("/proc/{}/exe", process.pid), unknown)}) {
    const std::string neighbor = (python.parent_path() / "py-spy").string();
    if (python.is_absolute() && is_safe_program(neighbor, true)) return neighbor;
  }
  return {};
}

std::vector<LookThread> parse_py_spy(const std::string& json, bool native) {
  std::vector<LookThread> threads;
  const Json document = parse_json(json, "py-spy");
  const std::string name = "py-spy";
  JsonPlace(document, "", name, "py-spy dump --json").each([&](const JsonPlace& one) {
    LookThread thread;
    thread.tid = one.holds("os_thread_id") ? one.at("os_thread_id").whole(0) : -1;
    thread.name = one.holds("thread_name") ? without_controls(one.at("thread_name").text()) : "";
    thread.gil = one.holds("owns_gil") && one.at("owns_gil").truth();
    std::vector<std::string>& frames = native ? thread.native : thread.python;
    one.at("frames").each([&](const JsonPlace& frame) {
      if (frames.size() >= kMostFrames) return;
      const std::string file =
          frame.holds("short_filename") ? frame.at("short_filename").text() : frame.at("filename").text_or_empty();
      const fs::path path(file);
      const fs::path folder = path.parent_path().filename();
      const std::string shown = folder.empty() ? file : (folder / path.filename()).string();
      const std::int64_t line = frame.holds("line") ? frame.at("line").whole(0) : 0;
      frames.push_back(masked(
          without_controls(fmt::format("{} ({}:{})", frame.at("name").text(), shown, line).substr(0, kLongestFrame))));
    });
    std::ranges::reverse(frames);  // py-spy prints the innermost first
    threads.push_back(std::move(thread));
  });
  return threads;
}

std::vector<LookThread> parse_gdb(const std::string& text) {
  std::vector<LookThread> threads;
  for (std::string_view line : split_text(text, '\n')) {
    // Thread 3 (Thread 0x7f24 (LWP 4242) "pt_nccl_watchdg"):
    if (const std::size_t lwp = line.find("(LWP "); line.starts_with("Thread ") && lwp != kNotFound) {
      threads.emplace_back().tid = leading_number<std::int64_t>(line.substr(lwp + 5)).value_or(-1);
      continue;
    }
    // #1  0x00007f in ncclAllReduce (sendbuff=...) at enqueue.cc:12
    if (threads.empty() || !line.starts_with('#')) continue;
    const std::size_t in = line.find(" in ");
    std::string_view name =
        in != kNotFound ? line.substr(in + 4) : trimmed(line.substr(std::min(line.find(' '), line.size())));
    name = name.substr(0, name.find(" ("));
    std::vector<std::string>& frames = threads.back().native;
    if (frames.size() < kMostFrames) frames.push_back(without_controls(name.substr(0, kLongestFrame)));
  }
  for (LookThread& thread : threads) std::ranges::reverse(thread.native);
  return threads;
}

std::vector<LookThread> python_stacks(const std::string& py_spy, std::int64_t pid, bool native) {
  const ChildResult result =
      output_of({py_spy, "dump", native ? "--native" : "--nonblocking", "--json", "--pid", std::to_string(pid)});
  check(py_spy, result);
  return parse_py_spy(result.out, native);
}

std::vector<LookThread> native_stacks(const std::string& py_spy, const std::string& gdb, std::int64_t pid) {
  if (!py_spy.empty()) return python_stacks(py_spy, pid, true);
  const ChildResult result = output_of(
      {gdb, "--batch", "-nx", "-ex", "set auto-load off", "-ex", "thread apply all bt 24", "-p", std::to_string(pid)});
  check(gdb, result);
  return parse_gdb(result.out);
}

void add_stacks(LookProcess& process, const std::vector<LookThread>& stacks) {
  for (const LookThread& stack : stacks) {
    // In containers py-spy may see other numbers; Python's main thread is the first.
    const std::int64_t tid = stack.name == "MainThread" ? process.pid : stack.tid;
    const auto at = std::ranges::find(process.threads, tid, &LookThread::tid);
    if (at == process.threads.end()) continue;
    if (!stack.python.empty()) at->python = stack.python;
    if (!stack.native.empty()) at->native = stack.native;
    at->gil = stack.gil;
  }
}

std::vector<LookGpu> parse_nvidia_smi(const std::string& gpus, const std::string& processes) {
  std::vector<LookGpu> found;
  for (const std::string_view line : split_text(gpus, '\n')) {
    auto fields = split_list(line);
    for (std::string_view& field : fields) field = trimmed(field);
    LookGpu gpu;
    if (fields.size() < 9) {
      // "Unable to determine the device handle for GPU0000:18:00.0: Unknown Error"
      if (line.find("GPU") == kNotFound && line.find("NVIDIA-SMI") == kNotFound) continue;
      gpu.problem = without_controls(line);
      found.push_back(std::move(gpu));
      continue;
    }
    gpu.index = number_of<int>(fields[0]).value_or(-1);
    gpu.name = without_controls(fields[1]);
    gpu.bus_id = without_controls(fields[2]);
    for (const std::string_view field : fields) {
      const bool none = has_any(field, {"N/A", "Not Supported", "Insufficient Permissions"});
      if (field.starts_with('[') && !none) gpu.problem = without_controls(trimmed(field, "[]"));
    }
    gpu.busy_percent = number_in(fields[3]);
    gpu.memory_percent = number_in(fields[4]);
    gpu.power_w = number_in(fields[5]);
    gpu.power_limit_w = number_in(fields[6]);
    gpu.ecc_uncorrected = number_of<std::int64_t>(fields[7]).value_or(-1);
    for (const std::string_view process : split_text(processes, '\n')) {
      const auto parts = split_list(process);
      if (parts.size() < 2 || trimmed(parts[0]) != fields[8]) continue;
      if (const auto pid = number_of<std::int64_t>(trimmed(parts[1]))) gpu.pids.push_back(*pid);
    }
    found.push_back(std::move(gpu));
  }
  return found;
}

std::vector<LookGpu> read_nvidia_smi(const std::string& nvidia_smi) {
  constexpr const char* kFormat = "--format=csv,noheader,nounits";
  const ChildResult gpus = output_of({nvidia_smi,
                                      "--query-gpu=index,name,pci.bus_id,utilization.gpu,utilization.memory,power.draw,"
                                      "power.limit,ecc.errors.uncorrected.volatile.total,uuid",
                                      kFormat});
  if (parse_nvidia_smi(gpus.out, "").empty()) check(nvidia_smi, gpus);
  return parse_nvidia_smi(gpus.out, output_of({nvidia_smi, "--query-compute-apps=gpu_uuid,pid", kFormat}).out);
}

}  // namespace busbar
