#pragma once

// Jobs that stand still, recorded in test/triage/*.yaml, as looks. The head of scenarios.yaml explains the words.

#include "common/base/text.h"
#include "common/base/yaml_node.h"
#include "common/record/host_look.h"
#include "golden.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbar {

/// A recorded job and what must be concluded of it.
struct Scenario {
  std::string name, truth;
  std::vector<int> ranks;
  std::vector<std::string> hosts;  ///< to blame; not compared if empty
  std::vector<std::string> names;  ///< parts of the report
  JobLook looks;
};

using RecordedStacks = std::map<std::string, std::vector<std::string>>;
inline constexpr double kLook = 6;  // [s] between the looks

inline std::filesystem::path triage_folder() {
  return std::filesystem::path(__FILE__).parent_path().parent_path() / "triage";
}

inline double number(const std::string& text) { return std::stod(text); }
inline std::int64_t mebibytes(const std::string& text) { return static_cast<std::int64_t>(number(text) * (1 << 20)); }

/// "0-3,7" as ranks.
inline std::vector<int> ranks_in(std::string_view text) {
  std::vector<int> ranks;
  for (const std::string_view part : split_text(text, ',')) {
    const auto dash = part.find('-', 1);
    const int first = *number_of<int>(part.substr(0, dash));
    const int last = dash == part.npos ? first : *number_of<int>(part.substr(dash + 1));
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

inline std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (held += 8; held >= 6;) text += kLetters[bits >> (held -= 6) & 63];
  }
  if (held > 0) text += kLetters[bits << (6 - held) & 63];
  return text;
}

class ScenarioBuilder {
 public:
  ScenarioBuilder(const RecordedStacks& stacks, int nhosts, int per_host) : stacks_(stacks), per_host_(per_host) {
    looks_.how = "recorded";
    looks_.expected_hosts = nhosts;
    for (int i = 0; i < nhosts; ++i) {
      HostLook& host = looks_.hosts.emplace_back();
      host.host = fmt::format("node{}", i);
      host.kernel = "6.8.0 x86_64";
      host.addresses = {address(host.host)};
      host.time_s = 1e9;
      host.look_s = kLook;
    }
  }

  void look(const std::string& line) {
    const auto [which, words] = halves(line);
    for (const int rank : ranks_in(which)) {
      if (words != "gone") add_rank(rank, words);
    }
  }

  void host(const std::string& line) {
    const auto [which, word] = halves(line);
    const auto [key, value] = pair_in(word, '=');
    if (key == "silent") {
      std::erase_if(looks_.hosts, [&](const HostLook& host) { return host.host == which; });
      looks_.silent.push_back(
          {which, value == "failed" ? LookSilence::Kind::failed : LookSilence::Kind::unreachable, "ssh failed"});
    }
    for (HostLook& host : looks_.hosts) {
      if (which == "all" || host.host == which) change(host, key, value);
    }
  }

  /// "0-6: world:0-7/all_reduce/2437/started/8 ...".
  void dump(const std::string& line) {
    const auto [which, words] = halves(line);
    std::string entries, groups;
    std::map<std::string, std::string> ranks_of;
    std::string text = words;
    // The calls of transfers have a space: "send 0->1".
    for (std::size_t at; (at = text.find("send ")) != text.npos;) text[at + 4] = '_';
    for (const std::string_view word : split_text(text, ' ')) {
      const auto parts = split_text(word, '/');
      const auto [group, members] = pair_in(std::string(parts[0]), ':');
      ranks_of[group] = members;
      std::string op(parts[1]);
      std::ranges::replace(op, '_', op.starts_with("send") ? ' ' : '_');
      entries += fmt::format(
          R"({}{{"collective_seq_id":{},"is_p2p":{},"input_dtypes":["Float"],"input_sizes":[[{}]],"output_sizes":[[{}]],)"
          R"("process_group":["{}","{}"],"profiling_name":"nccl:{}","state":"{}","record_id":1}})",
          entries.empty() ? "" : ",", parts[2], op.starts_with("send"), parts[4], parts[4], group, group, op, parts[3]);
    }
    for (const auto& [group, members] : ranks_of) {
      groups += fmt::format(R"({}"{}":{{"desc":"{}","name":"{}","ranks":"[{}]"}})", groups.empty() ? "" : ",", group,
                            group, group, fmt::join(ranks_in(members), ", "));
    }
    const std::string document =
        fmt::format(R"({{"entries":[{}],"pg_config":{{{}}},"version":"2.10"}})", entries, groups);
    for (const int rank : ranks_in(which)) {
      LookDump& one = host_of(rank).dumps.emplace_back();
      one.path = fmt::format("/tmp/nccl_trace_rank_{}", rank);
      one.rank = rank;
      one.pid = pid_of(rank);
      one.base64 = base64(document);
    }
  }

  /// "0-3: 40 90": launches of all_gather in the first and in the second look.
  void ras(const std::vector<std::string>& lines) {
    std::string ranks[2];
    std::size_t size = 0;
    std::map<int, std::pair<std::string, std::string>> launches;
    for (const std::string& line : lines) {
      const auto [which, counts] = halves(line);
      for (const int rank : ranks_in(which)) launches[rank] = pair_in(counts, ' ');
    }
    for (const auto& [rank, counts] : launches) {
      ++size;
      for (const int look : {0, 1}) {
        ranks[look] += fmt::format(
            R"({}{{"rank":{},"host":"10.0.0.{}","pid":{},"cuda_dev":0,"nvml_dev":0,"status":{{"init_state":0,"async_error":0,)"
            R"("finalize_called":false,"destroy_flag":false,"abort_flag":false}},"collective_counts":{{"AllGather":{}}}}})",
            ranks[look].empty() ? "" : ",", rank, rank / per_host_, pid_of(rank),
            look == 0 ? counts.first : counts.second);
      }
    }
    const auto answer = [&](const std::string& text) {
      return fmt::format(
          R"({{"nccl_version":"2.28.9","cuda_runtime_version":13000,"communicators_count":1,"communicators":[)"
          R"({{"hash":"0x9abc","size":{},"ranks":[{}],"missing_ranks":[]}}],"ras":{{"collection_time_sec":0.001,)"
          R"("timeouts_count":0}}}})",
          size, text);
    };
    if (size > 0) looks_.hosts.front().ras = {"", answer(ranks[0]), answer(ranks[1])};
  }

  void log(const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    LookLog& log = looks_.hosts.front().logs.emplace_back();
    log.path = "/logs/job.out";
    for (const std::string& line : lines) log.text += line + "\n";
    log.nbytes = static_cast<std::int64_t>(log.text.size());
  }

  JobLook take(int nranks) {
    for (HostLook& host : looks_.hosts) {
      for (LookProcess& process : host.processes) process.nranks = process.rank < 0 ? -1 : nranks;
    }
    return std::move(looks_);
  }

 private:
  static std::pair<std::string, std::string> pair_in(const std::string& text, char separator) {
    const std::size_t at = text.find(separator);
    if (at == text.npos) return {text, ""};
    return {text.substr(0, at), text.substr(at + 1)};
  }
  static std::pair<std::string, std::string> halves(const std::string& line) {
    auto [which, words] = pair_in(line, ':');
    return {which, std::string(trimmed(words))};
  }
  static std::int64_t pid_of(int rank) { return 1000 + rank; }

  HostLook& host_of(int rank) {
    const auto found = std::ranges::find(looks_.hosts, fmt::format("node{}", rank / per_host_), &HostLook::host);
    if (found == looks_.hosts.end()) throw std::runtime_error(fmt::format("rank {} is on no host", rank));
    return *found;
  }

  const std::vector<std::string>& stack(const std::string& name) const {
    const auto found = stacks_.find(name);
    if (found == stacks_.end()) throw std::runtime_error("no stack " + name);
    return found->second;
  }

  LookProcess& child(HostLook& host, const LookProcess& parent, std::size_t number) {
    LookProcess& one = host.processes.emplace_back();
    one.pid = 5000 + 100 * parent.pid + static_cast<std::int64_t>(number);
    one.parent = parent.pid;
    one.nthreads = 1;
    return one;
  }

  void add_rank(int rank, const std::string& words) {
    HostLook& host = host_of(rank);
    LookProcess process;
    process.pid = process.inner_pid = pid_of(rank);
    process.rank = rank;
    process.local_rank = rank % per_host_;
    process.rank_source = "RANK";
    process.role = LookProcess::Role::rank;
    process.job = "recorded";
    process.program = "python3";
    process.state = process.state_before = 'S';
    process.wchan = "futex_do_wait";
    process.nthreads = 20;
    process.libraries = {"torch", "nccl"};
    process.nccl_version = 22809;
    process.cpu_s = 0;
    process.bytes_read = process.bytes_written = 0;
    LookThread main;
    main.tid = process.pid;
    main.cpu_s = 0;
    main.slept = 0;
    process.threads.push_back(main);
    std::vector<std::pair<std::string, std::string>> children;
    for (const std::string_view word : split_text(words, ' ')) {
      const auto [key, value] = pair_in(std::string(word), '=');
      if (key == "worker" || key == "child")
        children.emplace_back(key, value);
      else
        set(host, process, key, value);
    }
    host.processes.push_back(process);
    add_children(host, process, children);
  }

  void add_children(HostLook& host, const LookProcess& parent,
                    const std::vector<std::pair<std::string, std::string>>& children) {
    std::size_t number = 0;
    for (const auto& [key, value] : children) {
      const auto parts = split_list(value, ':');
      if (key == "child") {
        LookProcess& one = child(host, parent, number++);
        one.program = parts[0];
        one.cpu_s = number_of<double>(parts[1]).value() * kLook;
        if (parts.size() > 2) one.state = one.state_before = parts[2][0];
        continue;
      }
      for (int i = 0; i < *number_of<int>(parts[0]); ++i) {
        LookProcess& one = child(host, parent, number++);
        one.role = LookProcess::Role::worker;
        one.state = one.state_before = parts[1][0];
        one.wchan = parts[2];
        one.cpu_s = number_of<double>(parts[3]).value() * kLook;
      }
    }
  }

  void set(HostLook& host, LookProcess& p, const std::string& key, const std::string& value) {
    LookThread& main = p.threads.front();
    if (key == "stack")
      main.python = stack(value);
    else if (key == "before")
      main.python_before = stack(value);
    else if (key == "native")
      main.native = stack(value);
    else if (key == "cpu")
      main.cpu_s = p.cpu_s = number(value) * kLook;
    else if (key == "ended")
      p.children_cpu_s = number(value) * kLook;
    else if (key == "slept")
      main.slept = std::stoll(value);
    else if (key == "state")
      p.state = p.state_before = main.state = value[0];
    else if (key == "wchan")
      p.wchan = main.wchan = value;
    else if (key == "tracer")
      p.tracer = p.tracer_before = std::stoll(value);
    else if (key == "read")
      p.bytes_read = mebibytes(value);
    else if (key == "written")
      p.bytes_written = mebibytes(value);
    else if (key == "moved")
      main.moved = std::stoll(value);
    else if (key == "rss")
      p.rss_growth = mebibytes(value);
    else if (key == "restarts")
      p.restarts = std::stoi(value);
    else if (key == "master")
      p.master = value;
    else if (key == "nccl")
      p.nccl_version = std::stoi(value);
    else if (key == "libs")
      p.libraries = {value};
    else if (key == "env")
      p.environment.push_back(value);
    else if (key == "lock")
      main.gil = true;
    else if (key == "missing")
      p.stacks_missing = value;
    else if (key == "unnamed")
      p.rank = -1;
    else if (key == "syn" || key == "stuck")
      add_socket(host, p, key, value);
    else if (key == "gpu")
      add_gpu(host, p, value);
    else if (key == "gil")
      add_lock(p, value);
    else
      throw std::runtime_error("what is " + key + "?");
  }

  void add_lock(LookProcess& p, const std::string& value) {
    LookThread holder;
    holder.tid = p.pid + 1;
    holder.gil = true;
    holder.cpu_s = 0;
    holder.native = stack(value);
    p.threads.push_back(holder);
  }

  static std::string address(const std::string& host) {
    return "10.0.0." + host.substr(host.find_first_of("0123456789"));
  }

  static void add_socket(const HostLook& host, LookProcess& p, const std::string& key, const std::string& value) {
    LookSocket& socket = p.sockets.emplace_back();
    socket.local = address(host.host) + ":4242";
    socket.same_in_both = true;
    socket.state = key == "syn" ? "SYN_SENT" : "ESTABLISHED";
    socket.remote = key == "syn" ? value : address(value) + ":5555";
    if (key == "stuck") {
      socket.unsent = 180000;
      socket.retransmits = 7;
    }
  }

  void add_gpu(HostLook& host, LookProcess& p, const std::string& value) {
    LookGpu& gpu = host.gpus.emplace_back();
    gpu.index = p.local_rank;
    gpu.pids = {p.pid};
    p.gpus = {p.local_rank};
    const bool works = value == "works", idle = value == "idle";
    gpu.busy_percent = gpu.busy_percent_before = idle ? 0 : 100;
    gpu.memory_percent = gpu.memory_percent_before = works ? 45 : 0;
    gpu.power_w = gpu.power_w_before = works ? 480 : idle ? 70 : 110;
    gpu.power_limit_w = 700;
  }

  void change(HostLook& host, const std::string& key, const std::string& value) {
    const auto [first, rest] = pair_in(value, ':');
    const auto [second, third] = pair_in(rest, ':');
    const auto rank_pid = [&] { return std::stoi(first) < 0 ? 900 - std::stoi(first) : pid_of(std::stoi(first)); };
    if (key == "port") {
      host.ports.emplace_back().name = first;
      host.ports.back().state = rest;
    } else if (key == "counter")
      host.counters.push_back({first, std::stoll(rest), std::stoll(rest)});
    else if (key == "blocked")
      host.blocked.push_back({rank_pid(), "python3", second, {third}});
    else if (key == "oom")
      host.groups.push_back({.path = "job_7", .oom_kills = std::stoll(value)});
    else if (key == "kernel")
      host.kernel_log.push_back(value);
    else if (key == "machine")
      host.kernel = value;
    else if (key == "launcher") {
      LookProcess& launcher = host.processes.emplace_back();
      launcher.pid = 800;
      launcher.role = LookProcess::Role::launcher;
      launcher.program = value;
    } else if (key == "gpu") {
      LookGpu& gpu = host.gpus.emplace_back();
      gpu.index = std::stoi(first) % per_host_;
      gpu.problem = rest;
    } else if (key != "silent")
      throw std::runtime_error("what is " + key + "?");
  }

  const RecordedStacks& stacks_;
  int per_host_;
  JobLook looks_;
};

inline Scenario read_scenario(const YamlValue& map, const RecordedStacks& stacks) {
  Scenario scenario;
  scenario.name = map.key;
  std::string about, job, nranks, expected;
  std::vector<std::string> ranks, looks, hosts, dumps, ras, logs, scheduler;
  map.read({key_of("about", about), key_of("truth", scenario.truth), key_of("ranks", ranks),
            key_of("hosts-to-blame", scenario.hosts), key_of("names", scenario.names), key_of("job", job),
            key_of("nranks", nranks), key_of("hosts-expected", expected), key_of("looks", looks),
            key_of("hosts", hosts), key_of("dumps", dumps), key_of("ras", ras), key_of("logs", logs),
            key_of("scheduler", scheduler)});
  for (const std::string& rank : ranks) scenario.ranks.push_back(std::stoi(rank));
  const std::size_t times = job.find('x');
  const int nhosts = std::stoi(job.substr(0, times)), per_host = std::stoi(job.substr(times + 1));
  ScenarioBuilder builder(stacks, nhosts, per_host);
  for (const std::string& line : looks) builder.look(line);
  for (const std::string& line : hosts) builder.host(line);
  for (const std::string& line : dumps) builder.dump(line);
  builder.ras(ras);
  builder.log(logs);
  scenario.looks = builder.take(nranks.empty() ? nhosts * per_host : std::stoi(nranks));
  scenario.looks.scheduler = scheduler;
  if (!expected.empty()) scenario.looks.expected_hosts = std::stoi(expected);
  return scenario;
}

/// Those of a file in test/triage.
inline std::vector<Scenario> read_scenarios(const std::string& file) {
  static RecordedStacks stacks;
  std::vector<Scenario> scenarios;
  if (stacks.empty() && file != "scenarios.yaml") read_scenarios("scenarios.yaml");
  with_yaml(file, read_text(triage_folder() / file), [&](const YamlValue& root) {
    root.read({{"schema", check_yaml_schema},
               {"stacks",
                [&](const YamlValue& v) {
                  v.each([&](const YamlValue& one) { stacks[std::string(one.key)] = one.texts(); });
                }},
               {"scenarios", [&](const YamlValue& v) {
                  v.each([&](const YamlValue& one) { scenarios.push_back(read_scenario(one, stacks)); });
                }}});
  });
  return scenarios;
}

}  // namespace busbar
