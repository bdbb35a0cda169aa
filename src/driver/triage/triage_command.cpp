#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/say.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/processes/child.h"
#include "common/record/finding.h"
#include "common/record/json_values.h"
#include "common/watch/ras_answer.h"
#include "driver/command/subcommand.h"
#include "driver/diagnose/looks/judge_looks.h"
#include "driver/launch/launching.h"
#include "driver/triage/triage_parts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>

#include <algorithm>
#include <utility>

namespace busbar {
namespace {

struct TriageOptions {
  bool help = false;
  bool local = false;
  bool merge = false;
  std::string hosts;
  std::string agent;  ///< instead of ssh
  std::string slurm;
  bool kube = false;
  std::string name_space = "default";
  std::string selector;
  std::string container;
  std::string job;
  double watch_s = 0;  ///< 0: once
  LookOptions request;
  std::vector<std::string> files;
  std::string output_file;  ///< -J
};

double parse_seconds_between(std::string_view text, double least, double most) {
  const double seconds = parse_duration(text);
  if (!(seconds >= least && seconds <= most)) {
    throw_bad_config(fmt::format("{} is not between {} s and {} s", in_quotes(text), least, most));
  }
  return seconds;
}

std::vector<OwnOption> own_options(TriageOptions& o) {
  using Text = std::string_view;
  LookOptions& r = o.request;
  return {
      {"slurm", "JOB", "a job of Slurm: a step of its own (srun --overlap) on every node, ssh where Slurm starts none",
       into(o.slurm)},
      {"hosts", "LIST", "over ssh: node[1-8],login, or a file with one host per line", into(o.hosts)},
      {"agent", "COMMAND", "with --hosts or --slurm: instead of ssh; gets the host's name and a command line",
       into(o.agent)},
      {"kube", "", "pods of Kubernetes, with -n and -l: kubectl exec into each", [&](Text) { o.kube = true; }},
      {"namespace", "NAME", "with --kube (default: default)", into(o.name_space), 'n'},
      {"selector", "LABEL", "with --kube: the label of the job's pods, such as job=llm", into(o.selector), 'l'},
      {"container", "NAME", "with --kube: of each pod (default: its first)", into(o.container)},
      {"local", "", "this host alone; -J FILE keeps it for --merge", [&](Text) { o.local = true; }},
      {"merge", "", "judge FILE.json ... that --local -J wrote on the hosts of a job", [&](Text) { o.merge = true; }},
      {"match", "TEXT", "only processes whose command has this text, and what they started", into(r.filter.pattern)},
      {"job", "NAME", "this one of several jobs, by its name or a part of it", into(o.job)},
      {"watch", "INTERVAL", "look again every INTERVAL (30s, 5m), and report when the job stands still",
       [&](Text t) { o.watch_s = parse_seconds_between(t, 1, 86400); }},
      {"apart", "TIME", "between the two looks (default: 5s)",
       [&](Text t) { r.apart_s = parse_seconds_between(t, 0.5, 60); }},
      {"limit", "TIME", "for a host's look; what blocks longer is reported as such (default: 60s)",
       [&](Text t) { r.limit_s = parse_seconds_between(t, 5, 3600); }},
      {"stacks", "KIND",
       "native: also native stacks: STOPS each rank for up to seconds, and its system calls may return EINTR",
       [&](Text t) {
         if (t != "native") throw_bad_config(fmt::format("{} is none of: native", in_quotes(t)));
         r.native_stacks = true;
       }},
      {"flight-recorder", "",
       "ask PyTorch's Flight Recorder for dumps: each rank WRITES a file, and may import modules for seconds",
       [&](Text) { r.flight_recorder = true; }},
  };
}

void check(const TriageOptions& o) {
  const bool places[] = {o.local, o.merge, o.kube, !o.hosts.empty(), !o.slurm.empty()};
  const std::pair<bool, std::string> wrong[] = {
      {std::ranges::count(places, true) != 1,
       "which job? Give one, and only one, of --slurm JOB, --hosts LIST, --kube -n NAMESPACE -l LABEL, --local, "
       "--merge FILE.json ..."},
      {o.merge && o.files.empty(), "--merge what? Give the files that `busbar triage --local -J FILE.json` wrote"},
      {!o.merge && !o.files.empty(),
       in_quotes(o.files.empty() ? "" : o.files[0]) + " has no meaning in triage; files are joined with --merge"},
      {o.kube && o.selector.empty(), "--kube needs -l LABEL, which names the pods of the job"},
      {!o.kube && !o.selector.empty(), "-l goes with --kube"},
      {!o.agent.empty() && o.hosts.empty() && o.slurm.empty(), "--agent goes with --hosts or --slurm"},
      {o.merge && o.watch_s > 0, "--watch looks at a job, and --merge at files: either one"}};
  for (const auto& [is_wrong, what] : wrong) {
    if (is_wrong) throw_bad_config(what);
  }
}

bool has_ranks(const JobLook& looks) {
  return std::ranges::any_of(looks.hosts, [](const HostLook& host) {
    return std::ranges::any_of(host.processes, [](const auto& p) { return p.role == LookProcess::Role::rank; });
  });
}

/// Nodes on which Slurm starts no step, tried over ssh: a prolog or a full table of steps may refuse srun.
void try_ssh(JobLook& looks, const std::string& agent, const LookOptions& request) {
  std::vector<HostTarget> again;
  for (const LookSilence& silent : looks.silent) {
    if (silent.kind != LookSilence::Kind::unresolved) again.push_back(ssh_target(silent.host, split_command(agent)));
  }
  if (again.empty()) return;
  for (HostLook& host : reach_hosts(again, request).hosts) {
    const auto at =
        std::ranges::find_if(looks.silent, [&](const auto& one) { return names_same(one.host, host.host); });
    if (at == looks.silent.end()) continue;
    looks.scheduler.push_back(fmt::format("srun on {}: {}; it was reached over ssh", at->host, at->why));
    looks.silent.erase(at);
    looks.hosts.push_back(std::move(host));
  }
}

/// Where the job is expected, the absence of its processes is evidence; elsewhere the options fit nothing.
JobLook look_once(const TriageOptions& options) {
  LookOptions request = options.request;
  ScheduledJob job;
  std::string how = "local";
  if (!options.slurm.empty()) {
    job = slurm_targets(options.slurm);
    request.filter.slurm_job = job.id;
    how = "slurm " + options.slurm;
  } else if (options.kube) {
    job = kube_targets(options.name_space, options.selector, options.container);
    how = fmt::format("kube {} {}", options.name_space, options.selector);
  } else if (!options.hosts.empty()) {
    for (const std::string& host : listed_hosts(options.hosts))
      job.targets.push_back(ssh_target(host, split_command(options.agent)));
    how = "hosts";
  } else {
    job.targets = {{"this host", {}, false}};
  }
  JobLook looks = reach_hosts(job.targets, request);
  std::ranges::move(job.silent, std::back_inserter(looks.silent));
  looks.scheduler = std::move(job.remarks);
  looks.expected_hosts = job.expected_hosts;
  looks.how = std::move(how);
  if (!options.slurm.empty()) try_ssh(looks, options.agent, request);
  return looks;
}

/// Of two files of one host, the newer counts.
JobLook merged(const std::vector<std::string>& files) {
  JobLook looks;
  looks.how = "merge";
  for (const std::string& file : files) {
    const std::string text = read_file(file, "a look");
    JobLook more;
    if (document_of(parse_json(text, file), file) == "look") {
      more.hosts.push_back(read_look(text, file));
    } else {
      more = read_triage_document(text, file);
    }
    looks.expected_hosts += more.expected_hosts;
    std::ranges::move(more.silent, std::back_inserter(looks.silent));
    std::ranges::move(more.scheduler, std::back_inserter(looks.scheduler));
    for (HostLook& host : more.hosts) {
      HostLook* known = known_look(looks, host, file);
      if (known == nullptr) {
        looks.hosts.push_back(std::move(host));
        continue;
      }
      say("{} is in several files; the newest counts", printable(host.host));
      if (known->time_s < host.time_s) *known = std::move(host);
    }
  }
  return looks;
}

/// Says why there is nothing to judge, if so.
void require_job(const JobLook& looks, const TriageOptions& options) {
  const bool expected = !options.slurm.empty() || options.kube;
  if (looks.hosts.empty()) {
    std::string why =
        looks.silent.empty() ? "no host" : fmt::format("{}: {}", looks.silent[0].host, looks.silent[0].why);
    if (looks.silent.size() > 1) why += fmt::format(" ({} more)", looks.silent.size() - 1);
    const bool unknown_name = !looks.silent.empty() && std::ranges::all_of(looks.silent, [](const LookSilence& one) {
      return one.kind == LookSilence::Kind::unresolved;
    });
    if (unknown_name) throw_bad_config(fmt::format("no such host: {}", why));
    throw_not_possible(fmt::format("no host could be looked at: {}", without_controls(why)));
  }
  if (has_ranks(looks) || (expected && options.request.filter.pattern.empty())) return;
  for (const HostLook& host : looks.hosts) {
    for (const LookCollector& one : host.collectors) {
      if (one.name != "environment" || one.outcome == LookCollector::Outcome::ok) continue;
      throw JobEnded(fmt::format("no rank was found, and not all processes may be read on {}: {}; {}",
                                 printable(host.host), without_controls(one.why), without_controls(one.allow)));
    }
  }
  throw JobEnded(fmt::format(
      "no rank of a job runs on {}{}; give the host where it runs, or --match with a part of its command",
      looks.hosts.size() == 1 ? printable(looks.hosts[0].host) : counted(looks.hosts.size(), "host"),
      options.request.filter.pattern.empty() ? "" : " that fits " + in_quotes(options.request.filter.pattern)));
}

/// Numbers ranks that have no variable by the largest communicator that RAS reports. Its pids do not name their hosts,
/// so this is done for one host alone.
void number_by_ras(JobLook& looks) {
  if (looks.hosts.size() != 1 || looks.hosts[0].ras.second.empty()) return;
  RasAnswer answer = parse_ras_json(looks.hosts[0].ras.second);
  const auto largest = std::ranges::max_element(answer.communicators, {}, &RasAnswer::Communicator::size);
  if (largest == answer.communicators.end()) return;
  for (LookProcess& process : looks.hosts[0].processes) {
    if (process.role != LookProcess::Role::rank || process.rank >= 0) continue;
    const auto found = std::ranges::find(largest->pids, process.inner_pid, [](const auto& one) { return one.second; });
    if (found == largest->pids.end()) continue;
    process.rank = found->first;
    process.rank_source = "RAS";
    process.nranks = largest->size;
  }
}

JobLook chosen(const TriageOptions& options) {
  JobLook looks = options.merge ? merged(options.files) : look_once(options);
  drop_seen_twice(looks);
  if (!options.merge) require_job(looks, options);
  for (const LookSilence& silent : looks.silent) {
    if (silent.kind != LookSilence::Kind::unresolved) continue;
    say("{} does not resolve; correct the list of hosts if it is no host of the job", printable(silent.host));
  }
  looks = only_job(std::move(looks), options.job);
  number_by_ras(looks);
  return looks;
}

bool stands_still(Verdict verdict) { return verdict != Verdict::ok && verdict != Verdict::slow_not_hung; }

int answer(const TriageOptions& options, const std::string& path) {
  for (int looked = 0;; ++looked) {
    JobLook looks;
    try {
      looks = chosen(options);
    } catch (const JobEnded& error) {
      if (looked == 0) throw;
      say("the job has ended: {}", error.what());
      return code_of(ExitCode::good);
    }
    const JudgedHang judged = judge_looks(looks);
    if (options.watch_s > 0 && !stands_still(judged.finding.verdict)) {
      poll(nullptr, 0, static_cast<int>(options.watch_s * 1e3));
      continue;
    }
    const bool printed = write_stdout(looks_report(looks, judged));
    Lost lost;
    const int error = path.empty() ? 0 : replace_file(path, dump_document(triage_document(looks, judged)));
    if (error != 0) lost.push_back(fmt::format("nothing in {} ({})", path, why_lost(error)));
    if (!say_lost(lost, printed)) return code_of(ExitCode::results_lost);
    return code_of(exit_code(judged.finding.verdict));
  }
}

int triage(int argc, char** argv) {
  TriageOptions options = read_own_options(argc, argv, own_options, check, "triage");
  if (options.help) return write_stdout(help_of("triage", own_options(options))) ? 0 : code_of(ExitCode::results_lost);
  StartedFiles started;
  const std::string path =
      options.output_file.empty() ? "" : started.add(create_result_file(options.output_file, "-J"));
  const int code = answer(options, path);
  started.keep();
  return code;
}

}  // namespace

int run_triage(int argc, char** argv) {
  const Launch launch = command_launch();
  return run_with_children(launch, [&] { return launch.rank <= 0 ? triage(argc, argv) : 0; });
}

}  // namespace busbar
