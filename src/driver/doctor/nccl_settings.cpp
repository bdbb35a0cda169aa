#include "common/backends/nccl/nccl_fields.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/machine/network.h"
#include "driver/doctor/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

namespace busbar {

std::vector<ConfLine> parse_nccl_conf(std::string_view text) {
  std::vector<ConfLine> lines;
  int number = 0;
  for (const std::string_view line : split_text(text, '\n')) {
    ++number;
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) continue;
    lines.push_back({number, std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
  }
  return lines;
}

std::vector<ConfFile> nccl_conf_files(const Probe& probe) {
  std::vector<std::string> paths;
  const auto named = probe.environment.find("NCCL_CONF_FILE");
  const auto home = probe.environment.find("HOME");
  if (named != probe.environment.end()) {
    paths.push_back(named->second);
  } else if (home != probe.environment.end()) {
    paths.push_back(home->second + "/.nccl.conf");
  }
  paths.emplace_back("/etc/nccl.conf");
  std::vector<ConfFile> files;
  for (const std::string& path : paths) {
    if (const auto text = probe.read(path)) files.push_back({path, parse_nccl_conf(*text)});
  }
  return files;
}

std::map<std::string, NcclSetting> nccl_settings(const Probe& probe, const std::vector<ConfFile>& files) {
  std::map<std::string, NcclSetting> settings;
  for (const auto& [name, value] : probe.environment) {
    if (name.starts_with("NCCL_")) settings[name] = {value, ""};
  }
  for (const ConfFile& file : files) {
    for (const ConfLine& line : file.lines) {
      if (line.name.starts_with("NCCL_")) settings.try_emplace(line.name, NcclSetting{line.value, file.path});
    }
  }
  return settings;
}

namespace {

int newest() {
  int most = 0;
  for (const SettingRule& one : setting_rules().nccl) most = std::max(most, one.last);
  return most;
}

Remark judge_unknown(std::string_view bare) {
  std::vector<std::string> choices;
  // Without "NCCL_", which would make any two short names look alike.
  for (const SettingRule& one : setting_rules().nccl) choices.push_back(one.name.substr(5));
  const std::string nearest = nearest_choice(bare, choices);
  return remark(Outcome::warn, nearest.empty() ? "setting-unknown" : "setting-misspelt", nccl_version_text(newest()),
                nearest);
}

using ValueWords = std::vector<std::string>;

bool is_one_of(std::string_view word, const ValueWords& words) {
  return std::ranges::any_of(words, [&](const std::string& one) { return lower_case(one) == lower_case(word); });
}

/// Which of the words it was meant to be; empty if none is near.
std::string nearest_word(std::string_view word, const ValueWords& words) {
  ValueWords small;
  for (const std::string& one : words) small.push_back(lower_case(one));
  const std::string nearest = nearest_choice(lower_case(word), small);
  const auto at = std::ranges::find(small, nearest);
  return nearest.empty() || at == small.end() ? "" : words[static_cast<std::size_t>(at - small.begin())];
}

std::string suggest(const std::string& word) { return fmt::format("did you mean {}?", word); }

std::string meant(std::string_view word, const ValueWords& words) {
  const std::string nearest = nearest_word(word, words);
  return nearest.empty() ? fmt::format("one of {}", fmt::join(words, ", ")) : suggest(nearest);
}

/// "Ring,Tree", "^NVLS", and since NCCL 2.24 "ring;allreduce:tree,nvls".
Remark judge_choices(std::string_view value, const ValueWords& words) {
  for (std::string_view per_function : split_list(value, ';')) {
    if (const std::size_t colon = per_function.find(':'); colon != std::string_view::npos)
      per_function.remove_prefix(colon + 1);
    if (per_function.starts_with('^')) per_function.remove_prefix(1);
    for (const std::string_view word : split_list(per_function, ',')) {
      if (word.empty()) return remark(Outcome::warn, "empty-element");
      if (!is_one_of(word, words)) return remark(Outcome::fail, "word-fails", word, meant(word, words));
    }
  }
  return {};
}

/// A list for which newer versions may have words that are not here: only slips are reported.
Remark judge_slips(std::string_view value, const ValueWords& words) {
  if (value.starts_with('^')) value.remove_prefix(1);
  for (const std::string_view word : split_list(value, ',')) {
    if (is_one_of(word, words) || word.empty()) continue;
    if (const std::string nearest = nearest_word(word, words); !nearest.empty())
      return remark(Outcome::warn, "word-unknown", word, suggest(nearest));
  }
  return {};
}

Remark judge_word(std::string_view value, const ValueWords& words) {
  if (is_one_of(value, words)) return {};
  return remark(Outcome::warn, "word-ignored", value, meant(value, words));
}

Remark judge_level(std::string_view value, const ValueWords& levels) {
  if (!value.empty() && value.find_first_not_of("0123456789-") == std::string_view::npos)
    return remark(Outcome::warn, "level-number");
  return judge_word(value, levels);
}

/// Whether NCCL reads a number with strtoll, which takes what comes first and ignores the rest.
bool is_number_name(std::string_view name) {
  return std::ranges::any_of(setting_rules().number_ends, [&](std::string_view end) { return name.ends_with(end); });
}

std::optional<long long> nccl_number_of(std::string_view text, Remark* odd = nullptr) {
  const std::string value(text);
  char* end = nullptr;
  const long long number = std::strtoll(value.c_str(), &end, 0);
  if (end != value.c_str() && *end == '\0') return number;
  if (odd != nullptr) {
    *odd = end == value.c_str() ? remark(Outcome::warn, "not-a-number")
                                : remark(Outcome::fail, "number-with-unit", number, end);
  }
  return std::nullopt;
}

/// The exponent t of 4.096 us x 2^t (InfiniBand Architecture, local ACK timeout) before each NCCL_IB_RETRY_CNT try.
Remark judge_ib_timeout(long long t) {
  if (t < 0) return {};  // NCCL's default
  if (t == 0) return remark(Outcome::warn, "timeout-for-ever");
  if (t > 31) return remark(Outcome::fail, "timeout-too-large");
  if (t <= 22) return {};
  const double seconds = 4.096e-6 * std::exp2(static_cast<double>(t)) * 7;
  return remark(Outcome::warn, "timeout-long", fmt::format("{:.0f}", seconds));
}

Remark judge_debug_file(std::string_view value, const JobShape& job) {
  if (value.starts_with("/dev/") || lower_case(value) == "stdout" || lower_case(value) == "stderr") return {};
  if (value.find("%d") != std::string_view::npos)
    return remark(job.one_per_host() ? Outcome::warn : Outcome::fail, "debug-file-literal");
  if (value.find("%p") != std::string_view::npos || job.one_per_host()) return {};
  return remark(job.on_host ? Outcome::fail : Outcome::warn, "debug-file-shared");
}

Remark judge_words(std::string_view name, std::string_view value) {
  const SettingRule* rule = find_setting_rule(name);
  if (rule == nullptr || rule->words.empty()) return {};
  constexpr std::array kJudges{judge_choices, judge_word, judge_level, judge_slips};  // as WordsOfSetting
  return kJudges[static_cast<std::size_t>(rule->kind)](value, rule->words);
}

}  // namespace

Remark judge_nccl_name(std::string_view name, int version) {
  const SettingRule* known = find_setting_rule(name);
  if (known == nullptr) {
    const bool other = std::ranges::any_of(setting_rules().families,
                                           [&](std::string_view family) { return name.starts_with(family); });
    return other ? Remark{} : judge_unknown(name.substr(std::min<std::size_t>(5, name.size())));
  }
  if (known->usual) return {};
  if (known->unwanted) return {Outcome::warn, known->unwanted->what, known->unwanted->remedy};
  const int in_use = version == 0 ? newest() : version;
  if (known->last < in_use && known->last < newest()) {
    if (known->last == 0) return remark(Outcome::warn, "setting-never-read");
    return remark(Outcome::warn, "setting-gone", nccl_version_text(known->last));
  }
  if (version != 0 && known->first > version)
    return remark(Outcome::warn, "setting-too-new", nccl_version_text(version), nccl_version_text(known->first));
  if (known->documented) return {};
  return remark(Outcome::warn, "setting-internal");
}

JobShape job_shape(const std::map<std::string, std::string>& environment) {
  const auto number = [&](const char* name) -> std::optional<int> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    const auto value = nccl_number_of(found->second);
    return value && *value > 0 ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
  };
  // Open MPI 4 and 5; Slurm with as many tasks on each node; MPICH and its kin.
  JobShape job{number("OMPI_COMM_WORLD_LOCAL_SIZE"), number("OMPI_COMM_WORLD_SIZE")};
  if (!job.on_host) job = {number("SLURM_NTASKS_PER_NODE"), number("SLURM_NTASKS")};
  if (!job.on_host) job = {number("MPI_LOCALNRANKS"), number("PMI_SIZE")};
  return job;
}

Remark judge_nccl_value(std::string_view name, std::string_view value, int version, const JobShape& job) {
  if (name == "NCCL_DEBUG_FILE") return judge_debug_file(value, job);
  if (const Remark words = judge_words(name, value); words.outcome != Outcome::pass) return words;
  if (!is_number_name(name)) return {};
  Remark odd;
  const long long number = nccl_number_of(value, &odd).value_or(0);
  if (odd.outcome != Outcome::pass) return odd;
  if (name == "NCCL_IB_TIMEOUT") return judge_ib_timeout(number);
  if (const auto wrong = wrong_setting(name, value))
    return remark(name.starts_with("NCCL_IB_") ? Outcome::fail : Outcome::warn, "value-out-of-range", *wrong);
  if ((name == "NCCL_IB_TC" || name == "NCCL_IB_FIFO_TC") && number > 0 && number % 2 != 0) {
    return remark(Outcome::warn, "traffic-class-odd");
  }
  if (name == "NCCL_BUFFSIZE" && number >= 0) {
    if (number < 1024) return remark(Outcome::fail, "buffer-tiny");
    if (!std::has_single_bit(static_cast<unsigned long long>(number)))
      return remark(Outcome::warn, "buffer-odd", std::bit_floor(static_cast<unsigned long long>(number)));
  }
  if (name == "NCCL_IB_GID_INDEX" && number >= 0 && (version == 0 || version >= 22100))
    return remark(Outcome::warn, "gid-index-set");
  return {};
}

Remark judge_slow_setting(std::string_view name, std::string_view value) {
  const SettingRule* rule = find_setting_rule(name);
  if (rule == nullptr || !rule->slow || value.empty()) return {};
  const SettingRemark& slow = *rule->slow;
  const bool is_slow = std::ranges::any_of(slow.when, [&](const std::string& when) {
    return when == "any" ||
           (when == "not 0" ? nccl_number_of(value).value_or(0) != 0 : lower_case(when) == lower_case(value));
  });
  if (!is_slow) return {};
  return {slow.fails ? Outcome::fail : Outcome::warn, slow.what,
          slow.remedy.empty() ? "unset it, unless it is wanted" : slow.remedy};
}

std::vector<std::string> taken_by_list(std::string_view list, const std::vector<std::string>& names) {
  std::vector<std::string> taken;
  std::ranges::copy_if(names, std::back_inserter(taken), [&](const std::string& n) { return list_takes(list, n); });
  return taken;
}

}  // namespace busbar
