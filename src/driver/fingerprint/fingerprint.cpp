#include "common/backends/mpi/ompi_tuned.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/options.h"
#include "common/base/read_file.h"
#include "common/base/units.h"
#include "common/job/session_job.h"
#include "common/measure/plan.h"
#include "common/output/report_file.h"
#include "common/output/table.h"
#include "common/processes/child.h"
#include "common/processes/launcher.h"
#include "common/processes/session.h"
#include "common/record/json_values.h"
#include "driver/command/subcommand.h"
#include "driver/fingerprint/fingerprint_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace busbar {
namespace {

std::vector<std::string> names(CollectiveId id, const std::vector<OmpiChoice>& choices) {
  return mapped(choices, [&](const OmpiChoice& choice) { return describe(id, choice); });
}

/// The other algorithms that send the same as this one, as text.
std::string alike(CollectiveId id, const KnownFingerprint& one, const std::vector<KnownFingerprint>& all) {
  std::vector<std::string> others;
  for (const KnownFingerprint& other : all) {
    if (&other != &one && other.why_not.empty() && other.sent == one.sent) others.push_back(describe(id, other.choice));
  }
  return others.empty() ? "" : fmt::format("   as {}", fmt::join(others, ", "));
}

Json sent_json(const SentMatrix& sent) {
  Json ranks = Json::array();
  for (std::size_t r = 0; r < sent.size(); ++r) {
    const Sent sum = total(sent[r]);
    Json peers = Json::array();
    for (std::size_t p = 0; p < sent[r].size(); ++p) {
      const Sent& to = sent[r][p];
      if (to.messages > 0) peers.push_back({{"rank", p}, {"messages", to.messages}, {"bytes", to.nbytes}});
    }
    ranks.push_back({{"rank", r}, {"messages", sum.messages}, {"bytes", sum.nbytes}, {"to", peers}});
  }
  return ranks;
}

Json case_json(const FingerprintResult& r) {
  const FingerprintCase& c = r.fingerprint_case;
  Json algorithms = Json::array();
  for (const KnownFingerprint& k : r.known) {
    Json one{{"id", k.choice.algorithm},
             {"name", ompi_algorithm_name(c.collective->id, k.choice.algorithm)},
             {"segment_bytes", k.choice.segment_bytes}};
    if (k.why_not.empty()) {
      one["sent"] = sent_json(k.sent);
    } else {
      one["why_not"] = k.why_not;
    }
    algorithms.push_back(one);
  }
  Json result{{"collective", c.collective->name},
              {"nbytes", c.nbytes},
              {"dtype", name(c.dtype)},
              {"nranks", r.nranks},
              {"library", r.library},
              {"setting", r.setting},
              {"sent", sent_json(r.sent)},
              {"consistent", names(c.collective->id, consistent(r.sent, r.known))}};
  if (r.without_rules) result["without_rules"] = sent_json(*r.without_rules);
  result["algorithms"] = algorithms;
  return result;
}

/// Each takes about half a second; more is a slip of the sizes.
constexpr std::size_t kMaxSizes = 32;

struct Arguments {
  FingerprintOptions run;
  const Collective* collective = nullptr;
  std::string algorithm;  ///< empty or "all": the setting in force
  std::string rules_file;
  std::uint64_t segment_bytes = 0;
  int probe_calls = -1;  ///< from 0 on: this process is the probe
  Config config;
};

std::vector<OwnOption> own_options(Arguments& a) {
  using Text = std::string_view;
  return {
      {"launch", "COMMAND", "how to start the ranks (default: mpirun -n 4). {cmd}: where the program goes",
       into(a.run.launch)},
      {"algorithm", "NAME", "force this algorithm (default: all, which checks the one in force)",
       [&](Text t) { a.algorithm = t == "all" ? Text{} : t; }},
      {"segmentsize", "BYTES", "with --algorithm: its segment size", into(a.segment_bytes, parse_bytes)},
      {"rules", "FILE", "start with this rules file, and again without it", into(a.rules_file)},
      {"tmp", "DIR", "folder for the ranks' counts; if ranks run on several hosts, all must see it", into(a.run.tmp)},
      {"launch-timeout", "TIME", "end a launch that takes longer (default: 60 s)",
       into(a.run.launch_timeout_s, parse_duration)},
      {"probe", "CALLS", "", [&](Text t) { a.probe_calls = parse_int(t, 0, 1000000); }},
  };
}

/// Options that would have to be ignored.
void refuse_what_measures_time(const Arguments& a, const std::vector<Setting>& given) {
  constexpr std::array<std::string_view, 9> kTaken{"minbytes", "maxbytes", "stepbytes", "stepfactor", "sizes",
                                                   "datatype", "op",       "root",      "output_file"};
  for (const Setting& setting : given) {
    if (contains(kTaken, setting.option->long_name)) continue;
    throw_bad_config(
        fmt::format("--{} has no meaning in fingerprint, which measures no time", setting.option->long_name));
  }
  if (a.segment_bytes > 0 && a.algorithm.empty()) throw_bad_config("--segmentsize goes with --algorithm NAME");
  if (a.config.dtypes.size() != 1 || a.config.ops.size() != 1 || a.config.all_roots) {
    throw_bad_config("one type (-d), one operation (-o) and one root (-r) at a time");
  }
}

void read_line(const CommandLine& line, Arguments& a) {
  if (line.words.size() != 1) {
    throw_bad_config(fmt::format("which collective? one of them; choose from: {}", fmt::join(collective_names(), " ")));
  }
  a.collective = find_collective(line.words[0]);
  if (a.collective == nullptr) throw_bad_config(unknown_choice("collective", line.words[0], collective_names()));
  const Configured configured = configure(line, std::nullopt, ::getenv);
  a.config = configured.config;
  const bool first = configured.sets("minbytes"), last = configured.sets("maxbytes");
  if (!first && !last && !configured.sets("sizes")) a.config.sizes = {65536};
  if (first && !last) a.config.sizes = {a.config.minbytes};
  if (!a.config.sizes.empty()) a.config.maxbytes = *std::ranges::max_element(a.config.sizes);
  refuse_what_measures_time(a, configured.settings);
}

FingerprintCase case_of(const Arguments& a, std::uint64_t nbytes) {
  FingerprintCase c{a.collective, nbytes, a.config.dtypes.front(), std::nullopt, a.config.root};
  if (a.collective->has_op) c.op = a.config.ops.front();
  return c;
}

std::optional<OmpiChoice> forced_choice(const Arguments& a) {
  if (a.algorithm.empty()) return std::nullopt;
  const MpiCollective* known = ompi_collective(a.collective->id);
  if (known == nullptr)
    throw Error(ExitCode::not_possible, why_no_algorithms(*a.collective) + ": there is no algorithm to force");
  return OmpiChoice{find_ompi_algorithm(*known, a.algorithm).id, a.segment_bytes};
}

FingerprintResult look_at(Fingerprinter& fingerprinter, const Arguments& a, const FingerprintCase& c,
                          const ParsedOmpiRules& rules) {
  FingerprintResult result;
  result.fingerprint_case = c;
  const std::optional<OmpiChoice> forced = forced_choice(a);
  FingerprintSetting setting{forced, std::nullopt};
  if (!a.rules_file.empty()) setting.rules_file = a.rules_file;
  result.sent = fingerprinter.measure(c, setting);
  result.nranks = fingerprinter.nranks();
  result.library = fingerprinter.library();
  std::vector<OmpiChoice> more;
  if (forced) {
    result.setting = "forced " + describe(c.collective->id, *forced);
    if (forced->segment_bytes != 0) more.push_back(*forced);
  } else if (!a.rules_file.empty()) {
    const CollectiveId id = c.collective->id;
    const MpiCollective* known = ompi_collective(id);
    const OmpiMessageRule* rule = nullptr;
    if (known != nullptr && rules.why_ignored.empty()) {
      const std::uint64_t nbytes = ompi_rule_bytes(id, problem_of(c, result.nranks));
      rule = find_ompi_rule(rules.rules, known->rule_id, result.nranks, nbytes);
    }
    result.setting = rules.why_ignored.empty() ? "no rule" : "file ignored: " + rules.why_ignored;
    if (rule != nullptr && rule->algorithm != 0) {
      const OmpiChoice choice{rule->algorithm, static_cast<std::uint64_t>(std::max(0, rule->segment_bytes))};
      result.setting = "rule:" + describe(id, choice);
      if (choice.segment_bytes != 0) more.push_back(choice);
    }
    result.without_rules = fingerprinter.measure(c, {std::nullopt, ""});
  } else {
    result.setting = "in force: " + fingerprinter.shown();
  }
  result.known = measure_algorithms(fingerprinter, c, more);
  return result;
}

int look(const Arguments& a) {
  const std::vector<std::uint64_t> sizes = sweep_sizes(a.config, a.config.maxbytes);
  if (sizes.size() > kMaxSizes) {
    throw_bad_config(fmt::format("more than {} sizes: each takes several launches", kMaxSizes));
  }
  if (!a.algorithm.empty() && !a.rules_file.empty())
    throw_bad_config("--algorithm and --rules: either one; Open MPI's versions differ in which goes first");
  ParsedOmpiRules rules;
  if (!a.rules_file.empty()) rules = parse_ompi_rules(read_file(a.rules_file, "the rules file"));
  forced_choice(a);
  RewrittenFile json(a.config.output_file, "-J");
  Fingerprinter fingerprinter(a.run);
  std::vector<FingerprintResult> results;
  const auto write_json = [&] { json.write([&] { return fingerprint_json(results); }, results.size()); };
  write_json();  // so that an interrupt leaves a whole file
  bool printed = true;
  for (const std::uint64_t nbytes : sizes) {
    results.push_back(look_at(fingerprinter, a, case_of(a, nbytes), rules));
    printed = write_stdout(fingerprint_text(results.back())) && printed;
    std::fflush(stdout);
    write_json();
  }
  json.finish();
  Lost lost;
  json.add_lost(lost, "size");
  return static_cast<int>(say_lost(lost, printed) ? ExitCode::good : ExitCode::results_lost);
}

int run_fingerprint_process(const Launch& launch, int argc, char** argv) {
  Arguments a;
  const std::vector<OwnOption> own = own_options(a);
  const CommandLine line = scan_arguments(argc, argv, own);
  if (const auto code = help_or_version(launch, line.action, [&] { return help_of("fingerprint", own); })) return *code;
  read_line(line, a);
  if (a.probe_calls >= 0) {
    const std::uint64_t nbytes = sweep_sizes(a.config, a.config.maxbytes).front();
    return run_fingerprint_probe(argc, argv, case_of(a, nbytes), forced_choice(a), a.probe_calls);
  }
  if (launch.launched()) {
    throw_bad_config(
        "start `busbar fingerprint` without a launcher: it starts its own ranks (--launch \"mpirun -n 4\")");
  }
  return look(a);
}

}  // namespace

std::string describe_consistent(const Collective& collective, const std::vector<OmpiChoice>& choices) {
  if (choices.empty()) return "{}: none of the algorithms below";
  return fmt::format("{{{}}}{}", fmt::join(names(collective.id, choices), ", "),
                     choices.size() > 1 ? ": alike here" : "");
}

std::string fingerprint_text(const FingerprintResult& r) {
  const FingerprintCase& c = r.fingerprint_case;
  std::string text = fmt::format("# {} of {} {}{} on {} ranks, {}\n", c.collective->name, format_bytes(c.nbytes),
                                 name(c.dtype), c.op ? fmt::format(" {}", name(*c.op)) : "", r.nranks, r.library);
  text += fmt::format("{:<26}{}\n", r.setting, describe(r.sent));
  if (!r.known.empty()) {
    text +=
        fmt::format("{:<26}{}\n", "  consistent with", describe_consistent(*c.collective, consistent(r.sent, r.known)));
  }
  if (r.without_rules) {
    text += fmt::format("{:<26}{}{}\n", "without the rules file", describe(*r.without_rules),
                        *r.without_rules == r.sent ? ": the file changes nothing here" : "");
  }
  for (const KnownFingerprint& k : r.known) {
    text +=
        fmt::format("  {:<24}{}\n", describe(c.collective->id, k.choice),
                    k.why_not.empty() ? describe(k.sent) + alike(c.collective->id, k, r.known) : "n/a: " + k.why_not);
  }
  return text;
}

std::string fingerprint_json(const std::vector<FingerprintResult>& results) {
  Json cases = Json::array();
  for (const FingerprintResult& result : results) cases.push_back(case_json(result));
  Json document = envelope_json({"fingerprint", local_timestamp(), {hostname()}, own_command()});
  document["cases"] = std::move(cases);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int run_fingerprint(int argc, char** argv) {
  const Launch launch = command_launch();
  return run_with_children(launch, [&] { return run_fingerprint_process(launch, argc, argv); });
}

}  // namespace busbar
