#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/machine/machine_facts.h"
#include "common/processes/child.h"
#include "common/record/json_values.h"
#include "driver/launch/launching.h"
#include "driver/triage/triage_parts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

extern char** environ;

namespace busbar {
namespace {

constexpr double kSchedulerPatience = 20;  ///< [s] for a scheduler's answer

ChildResult ask(const std::vector<std::string>& command) {
  return run_child(command, {.timeout_s = kSchedulerPatience, .output_limit = 32 << 20});
}

std::string why(const ChildResult& result) {
  return last_words(result.err.empty() ? describe_end(result, kSchedulerPatience) : result.err);
}

/// "env -u SLURM_X ..." for all variables of the session that we were started in: srun would take them as options.
std::vector<std::string> without_slurm_variables() {
  std::vector<std::string> words{"env"};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    const bool of_session =
        (name.starts_with("SLURM_") || name.starts_with("SBATCH_")) && name != "SLURM_CONF" && name != "SLURM_JWT";
    if (of_session) words.insert(words.end(), {"-u", std::string(name)});
  }
  return words;
}

}  // namespace

SlurmState parse_scontrol(std::string_view text) {
  SlurmState state;
  std::string line(text);
  std::ranges::replace(line, '\n', ' ');
  for (const std::string_view word : words_of(line)) {
    const std::size_t equals = word.find('=');
    if (equals == kNotFound) continue;
    const std::string_view key = word.substr(0, equals);
    const std::string value(word.substr(equals + 1));
    if (key == "JobId") state.ids.push_back(value);
    if (key == "JobState") state.state = value;
    if (key == "NodeList" && value != "(null)") state.nodes = value;
    if (key == "Reason") state.reason = value;
    if (key == "EndTime") state.ended = value;
  }
  return state;
}

ScheduledJob slurm_targets(const std::string& job) {
  if (job.empty() || job.find_first_not_of("0123456789_+") != std::string::npos) {
    throw_bad_config(fmt::format("--slurm {}: not the number of a job; `squeue` lists them", in_quotes(job)));
  }
  const ChildResult shown = ask({"scontrol", "show", "job", job});
  if (!shown.good()) throw_not_possible(fmt::format("scontrol show job {}: {}", job, why(shown)));
  const SlurmState state = parse_scontrol(shown.out);
  if (state.ids.size() != 1) {
    throw_bad_config(fmt::format("--slurm {} names {}: {}; give one of them", job, counted(state.ids.size(), "job"),
                                 printable(joined_words(state.ids, ", "))));
  }
  if (state.state != "RUNNING" && state.state != "COMPLETING" && state.state != "SUSPENDED") {
    throw JobEnded(fmt::format("job {} does not run: Slurm says {}{}; `busbar diagnose` reads what it left", job,
                               printable(state.state), state.ended.empty() ? "" : ", end " + state.ended));
  }
  ScheduledJob found;
  found.id = state.ids[0];
  if (state.state != "RUNNING") found.remarks.push_back(fmt::format("job {}: {} ({})", job, state.state, state.reason));
  const std::vector<std::string> hosts = expand_hosts(state.nodes);
  found.expected_hosts = static_cast<int>(hosts.size());
  for (const std::string& host : hosts) {
    std::vector<std::string> words = without_slurm_variables();
    words.insert(words.end(), {"srun", "--jobid=" + found.id, "--overlap", "--nodes=1", "--ntasks=1", "--mem=0",
                               "--mpi=none", "--cpu-bind=none", "--quiet", "--nodelist=" + host});
    found.targets.push_back({host, std::move(words), false});
  }
  const ChildResult nodes = ask({"sinfo", "-h", "-N", "-n", state.nodes, "-o", "%N %T %E"});
  for (const std::string_view line : split_text(nodes.out, '\n')) {
    const auto words = words_of(line);
    if (words.size() < 2 || contains(words_of("allocated mixed idle completing"), words[1])) continue;
    const std::string_view reason = trimmed(line.substr(line.find(words[1], words[0].size()) + words[1].size()));
    // A node of several partitions has a line of each.
    add_once(found.remarks, without_controls(fmt::format("{}: {} ({})", words[0], words[1], reason)));
  }
  return found;
}

HostTarget ssh_target(const std::string& host, const std::vector<std::string>& agent) {
  HostTarget target{host, agent, true};
  if (agent.empty()) target.before = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-T", "-x", "--"};
  target.before.push_back(host);
  return target;
}

ScheduledJob parse_pods(std::string_view json, const std::string& name_space, const std::string& container) {
  const std::string file = "kubectl get pods";
  const Json document = parse_json(json, file);
  ScheduledJob found;
  JsonPlace(document, "", file, "kubectl").at("items").each([&](const JsonPlace& pod) {
    const std::string name = pod.at("metadata").at("name").text();
    const JsonPlace status = pod.at("status");
    const std::string phase = status.has("phase") ? status.at("phase").text() : "Unknown";
    ++found.expected_hosts;
    if (status.holds("containerStatuses")) {
      status.at("containerStatuses").each([&](const JsonPlace& one) {
        const std::int64_t restarts = one.holds("restartCount") ? one.at("restartCount").whole(0) : 0;
        if (restarts == 0) return;
        const bool known = one.holds("lastState") && one.at("lastState").holds("terminated");
        std::string reason = known ? one.at("lastState").at("terminated").text_at("reason") : "";
        if (reason.empty()) reason = "reason not known";
        found.remarks.push_back(without_controls(fmt::format("pod {}: container {} restarted {} times, last {}", name,
                                                             one.at("name").text(), restarts, reason)));
      });
    }
    if (phase != "Running") {
      const std::string reason = status.holds("reason") ? " (" + status.at("reason").text() + ")" : "";
      found.remarks.push_back(without_controls(fmt::format("{}: {}{}", name, phase, reason)));
      found.silent.push_back({name, LookSilence::Kind::failed, without_controls("the pod is " + phase + reason)});
      return;
    }
    std::vector<std::string> words{"kubectl", "exec", "-i", "-n", name_space, name};
    if (!container.empty()) words.insert(words.end(), {"-c", container});
    words.emplace_back("--");
    found.targets.push_back({name, std::move(words), false});
  });
  return found;
}

ScheduledJob kube_targets(const std::string& name_space, const std::string& selector, const std::string& container) {
  const std::vector<std::string> command{"kubectl", "get", "pods", "-n", name_space, "-l", selector, "-o", "json"};
  const ChildResult listed = ask(command);
  if (!listed.good()) throw_not_possible(fmt::format("kubectl get pods: {}", why(listed)));
  ScheduledJob found = parse_pods(listed.out, name_space, container);
  if (found.expected_hosts == 0) {
    throw_bad_config(
        fmt::format("no pod in namespace {} has the label {}", in_quotes(name_space), in_quotes(selector)));
  }
  if (found.targets.empty()) throw JobEnded(fmt::format("no pod of the job runs: {}", printable(found.remarks[0])));
  return found;
}

}  // namespace busbar
