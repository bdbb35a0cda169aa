#include "common/base/compress_list.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/read_file.h"
#include "common/base/text.h"
#include "common/processes/child.h"
#include "common/record/json_fields.h"
#include "driver/launch/launching.h"
#include "driver/triage/triage_parts.h"
#include "look/apart.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

namespace busbar {
namespace {

constexpr std::size_t kAtOnce = 128;
constexpr std::size_t kMostAnswer = 48 << 20;    ///< [bytes] of one host
constexpr std::size_t kLogsTogether = 96 << 20;  ///< [bytes] of all hosts: they are judged in one process
constexpr double kOnTheWay = 20;                 ///< [s] to log in and to send the program

/// What a target's process leaves.
struct Answer {
  std::string out;
  std::string error;
  bool timed_out = false;
};
BUSBAR_RECORD(Answer, out, error, timed_out);

/// Runs busbar-look on a host: an installed one of this version, else the one that comes through stdin, from a file of
/// its own that goes with it. POSIX sh, also busybox's. noclobber: nobody can have put a link there.
std::string remote_script(const std::string& options) {
  constexpr std::string_view kScript = R"(
v=$(busbar-look --version 2>/dev/null)
[ "$v" = "busbar-look $version" ] && exec busbar-look "$options" </dev/null
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
cat >"$f" && "$f" "$options" </dev/null
)";
  return fmt::format("version={}\noptions={}{}", BUSBAR_VERSION, quote_for_shell(options), kScript);
}

std::vector<std::string> command_for(const HostTarget& target, const std::string& program, const std::string& options) {
  if (target.before.empty()) return {program, options};
  std::vector<std::string> command = {"sh", "-c", R"(exec "$@" <"$0")", program};
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
  ChildResult result =
      run_child(command, {.timeout_s = limit_s, .grace_s = 2, .takes_signals = false, .output_limit = kMostAnswer});
  std::string error = result.cut      ? "its answer is too long"
                      : result.good() ? ""
                                      : last_words(result.err.empty() ? describe_end(result, limit_s) : result.err);
  return {std::move(result.out), std::move(error), result.timed_out};
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
  constexpr auto kWords = std::to_array<std::pair<Kind, std::string_view>>(
      {{Kind::unresolved, "could not resolve|name or service not known|invalid node name"},
       {Kind::unreachable, "no route to host|connection timed out|network is unreachable|host is down"},
       {Kind::refused, "connection refused|permission denied|host key verification failed|forbidden"}});
  if (timed_out) return {host, Kind::no_answer, fmt::format("no answer in {} s", limit_s)};
  const std::string lower = lower_case(error);
  const auto found =
      std::ranges::find_if(kWords, [&](const auto& one) { return has_any(lower, split_text(one.second, '|')); });
  return {host, found == kWords.end() ? Kind::failed : found->first, without_controls(error)};
}

JobLook reach_hosts(const std::vector<HostTarget>& targets, LookOptions request) {
  const std::string program = program_beside("busbar-look").string();
  if (access(program.c_str(), X_OK) != 0) {
    throw_not_possible(
        fmt::format("triage needs {}, which is not there; copy it next to busbar, or run `make`", program));
  }
  request.log_bytes = std::min<std::size_t>(4 << 20, kLogsTogether / std::max<std::size_t>(1, targets.size()));
  const std::string options = dump_json(fields_json(request));
  // The look itself ends within its limit and what one last reading of all processes may take.
  const double limit_s = request.apart_s + 1.7 * request.limit_s + kOnTheWay;
  auto results = records_apart(targets.size(), {limit_s + 5, 4 * limit_s, kAtOnce}, [&](std::size_t i) {
    return run_there(command_for(targets[i], program, options), limit_s);
  });
  JobLook looks;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::string& host = targets[i].host;
    // Not longer than needed: there may be thousands.
    Answer answer = std::move(results[i].value).value_or(Answer{"", results[i].why, results[i].timed_out});
    results[i].value.reset();
    try {
      // Shells print greetings before what was asked.
      const std::size_t begin = answer.out.find("{\"document\":");
      if (!answer.timed_out && answer.error.empty() && begin != std::string::npos) {
        HostLook look = read_look(std::string_view(answer.out).substr(begin), host);
        known_look(looks, look, host);
        looks.hosts.push_back(std::move(look));
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
