#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/processes/child.h"
#include "driver/launch/launching.h"
#include "driver/triage/triage_steps.h"
#include "look/apart.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kAtOnce = 64;
constexpr std::size_t kMostAnswer = 48 << 20;    ///< [bytes] of one host
constexpr std::size_t kLogsTogether = 96 << 20;  ///< [bytes] of all hosts: they are judged in one process
constexpr double kOnTheWay = 20;                 ///< [s] to log in and to send the program

/// What a target's process leaves.
struct Answer {
  std::string out;
  std::string error;
  bool timed_out = false;
};
void visit_fields(auto&& visit, Answer& a) { BUSBAR_ALL_FIELDS(visit, a, out, error, timed_out); }

std::vector<std::string> look_options(const LookRequest& request, std::size_t nhosts) {
  std::vector<std::string> words{"--seconds",   fmt::format("{}", request.apart_s),
                                 "--limit",     fmt::format("{}", request.limit_s),
                                 "--log-bytes", std::to_string(std::min<std::size_t>(4 << 20, kLogsTogether / nhosts))};
  if (!request.pattern.empty()) words.insert(words.end(), {"--match", request.pattern});
  if (!request.slurm_job.empty()) words.insert(words.end(), {"--slurm-job", request.slurm_job});
  if (request.native_stacks) words.emplace_back("--stacks-native");
  if (request.flight_recorder) words.emplace_back("--flight-recorder");
  return words;
}

/// Runs busbar-look on a host: an installed one of this version, else the one that comes through stdin, from a file of
/// its own that goes with it. POSIX sh, also busybox's. noclobber: nobody can have put a link there.
std::string remote_script(const std::vector<std::string>& options) {
  constexpr std::string_view kScript = R"(v=$(busbar-look --version 2>/dev/null)
[ "$v" = "busbar-look VERSION" ] && exec busbar-look OPTIONS </dev/null
f=
for d in /dev/shm /tmp "${TMPDIR:-/var/tmp}" "${HOME:-/}"; do
  f=$d/.busbar-look-$$
  (umask 077; set -C; printf '#!/bin/sh\nexit 0\n' >"$f") 2>/dev/null || { f=; continue; }
  chmod 700 "$f" && "$f" 2>/dev/null && break
  rm -f "$f"; f=
done
[ -n "$f" ] || { echo "no folder here in which a program may be put and run" >&2; exit 5; }
trap 'rm -f "$f"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$f" && "$f" OPTIONS </dev/null
)";
  std::string script(kScript);
  const std::string words = join_for_shell(options);
  for (const auto& [place, text] : {std::pair<std::string_view, std::string>("VERSION", BUSBAR_VERSION),
                                    std::pair<std::string_view, std::string>("OPTIONS", words)}) {
    for (std::size_t at = script.find(place); at != std::string::npos; at = script.find(place, at + text.size())) {
      script.replace(at, place.size(), text);
    }
  }
  return script;
}

std::vector<std::string> command_for(const HostTarget& target, const std::string& program,
                                     const std::vector<std::string>& options) {
  std::vector<std::string> command;
  if (target.before.empty()) {
    command = {program};
    command.insert(command.end(), options.begin(), options.end());
    return command;
  }
  command = {"sh", "-c", R"(exec "$@" <"$0")", program};
  command.insert(command.end(), target.before.begin(), target.before.end());
  const std::string script = remote_script(options);
  if (target.one_word) {
    command.push_back("exec sh -c " + quote_for_shell(script));
  } else {
    command.insert(command.end(), {"sh", "-c", script});
  }
  return command;
}

Answer run_there(const std::vector<std::string>& command, double limit_s) {
  ChildOptions options;
  options.timeout_s = limit_s;
  options.grace_s = 2;
  options.takes_signals = false;
  options.output_limit = kMostAnswer;
  ChildResult result = run_child(command, options);
  Answer answer{std::move(result.out), "", result.timed_out};
  if (result.cut)
    answer.error = "its answer is too long";
  else if (!result.good())
    answer.error = last_words(result.err.empty() ? describe_end(result, limit_s) : result.err);
  return answer;
}

}  // namespace

std::vector<std::string> listed_hosts(const std::string& list_or_file) {
  std::error_code unknown;
  std::string list = list_or_file;
  if (std::filesystem::is_regular_file(list, unknown)) {
    const std::string text = read_file(list, "the list of hosts");
    list.clear();
    for (const std::string_view line : split_text(text, '\n')) {
      // The first word, as in host files of MPI; without comments.
      const std::string_view name = trimmed(line.substr(0, line.find('#')));
      list.append(name.substr(0, name.find_first_of(" \t:"))).append(" ");
    }
  }
  std::vector<std::string> hosts;
  for (std::string& host : expand_hosts(list)) {
    if (host.starts_with('-')) throw_bad_config(fmt::format("{}: no name of a host", in_quotes(host)));
    if (!contains(hosts, host)) hosts.push_back(std::move(host));
  }
  if (hosts.empty()) throw_bad_config(fmt::format("{}: no host in it", in_quotes(list_or_file)));
  return hosts;
}

LookSilence silence_of(const std::string& host, const std::string& error, bool timed_out, double limit_s) {
  using Kind = LookSilence::Kind;
  struct Words {
    Kind kind;
    std::string_view text;
  };
  constexpr auto kWords = std::to_array<Words>({{Kind::unresolved, "could not resolve"},
                                                {Kind::unresolved, "name or service not known"},
                                                {Kind::unresolved, "invalid node name"},
                                                {Kind::unreachable, "no route to host"},
                                                {Kind::unreachable, "connection timed out"},
                                                {Kind::unreachable, "network is unreachable"},
                                                {Kind::unreachable, "host is down"},
                                                {Kind::refused, "connection refused"},
                                                {Kind::refused, "permission denied"},
                                                {Kind::refused, "host key verification failed"},
                                                {Kind::refused, "forbidden"}});
  LookSilence silence{host, Kind::failed, without_controls(error)};
  if (timed_out) return {host, Kind::no_answer, fmt::format("no answer in {} s", limit_s)};
  const std::string lower = lower_case(error);
  for (const auto& [kind, text] : kWords) {
    if (lower.find(text) == std::string::npos) continue;
    silence.kind = kind;
    break;
  }
  return silence;
}

JobLook reach_hosts(const std::vector<HostTarget>& targets, const LookRequest& request) {
  const std::string program = program_beside("busbar-look").string();
  if (access(program.c_str(), X_OK) != 0) {
    throw_not_possible(
        fmt::format("triage needs {}, which is not there; copy it next to busbar, or run `make`", program));
  }
  const std::vector<std::string> options = look_options(request, std::max<std::size_t>(1, targets.size()));
  // The look itself ends within its limit and what one last reading of all processes may take.
  const double limit_s = request.apart_s + 1.7 * request.limit_s + kOnTheWay;
  const auto results = records_apart(targets.size(), {limit_s + 5, 4 * limit_s, kAtOnce}, [&](std::size_t i) {
    return run_there(command_for(targets[i], program, options), limit_s);
  });
  JobLook looks;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::string& host = targets[i].host;
    Answer answer = results[i].value.value_or(Answer{"", results[i].why, results[i].timed_out});
    try {
      // Shells print greetings before what was asked.
      const std::size_t begin = answer.out.find("{\"document\":");
      if (!answer.timed_out && answer.error.empty() && begin != std::string::npos) {
        looks.hosts.push_back(read_look(std::string_view(answer.out).substr(begin), host));
        continue;
      }
    } catch (const Error& error) {
      answer.error = error.what();
    }
    if (answer.error.empty() && !answer.timed_out) answer.error = "it printed no look";
    looks.silent.push_back(silence_of(host, answer.error, answer.timed_out, limit_s));
  }
  return looks;
}

}  // namespace busbar
