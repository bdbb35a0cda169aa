#include "driver/doctor/nccl_settings.h"

#include "common/base/suggest.h"
#include "common/base/text.h"
#include "driver/diagnose/setting_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <vector>

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

constexpr auto kNames = std::to_array<NcclName>({
#include "driver/doctor/nccl_env_names.inc"
});

/// Names of which the table of NCCL's sources does not tell enough.
struct Told {
  std::string_view name;  // without "NCCL_"
  Outcome outcome;
  std::string_view reason;
  std::string_view remedy;
};

constexpr std::string_view kOfPyTorch = "it is PyTorch's, not NCCL's, and has had another name since PyTorch 2.2";
constexpr std::string_view kOldRange = "deprecated since NCCL 2.17, and overruled by the newer name where both are set";

constexpr auto kTold = std::to_array<Told>({
    {"TIMEOUT", Outcome::warn, "no NCCL ever had it: NCCL's collectives have no timeout",
     "unset it; PyTorch's is the argument timeout of init_process_group"},
    {"ASYNC_ERROR_HANDLING", Outcome::warn, kOfPyTorch, "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
    {"BLOCKING_WAIT", Outcome::warn, kOfPyTorch, "TORCH_NCCL_BLOCKING_WAIT"},
    {"DESYNC_DEBUG", Outcome::warn, kOfPyTorch, "TORCH_NCCL_DESYNC_DEBUG"},
    {"ENABLE_TIMING", Outcome::warn, kOfPyTorch, "TORCH_NCCL_ENABLE_TIMING"},
    {"MAX_NCHANNELS", Outcome::warn, kOldRange, "NCCL_MAX_CTAS"},
    {"MIN_NCHANNELS", Outcome::warn, kOldRange, "NCCL_MIN_CTAS"},
    {"MAX_NRINGS", Outcome::warn, kOldRange, "NCCL_MAX_CTAS"},
    {"MIN_NRINGS", Outcome::warn, kOldRange, "NCCL_MIN_CTAS"},
    {"CHECKS_DISABLE", Outcome::warn, "deprecated since NCCL 2.2.12, and no longer read", "NCCL_CHECK_MODE"},
    {"CHECK_POINTERS", Outcome::warn, "deprecated since NCCL 2.29.7", "NCCL_CHECK_MODE"},
    // Not in the documentation under these names, yet set by good sites and images.
    {"NET_GDR_LEVEL", Outcome::pass, "", ""},
    {"IB_PKEY", Outcome::pass, "", ""},
    {"COMM_ID", Outcome::pass, "", ""},
    {"HOSTID", Outcome::pass, "", ""},
    {"GRAPH_FILE", Outcome::pass, "", ""},
    {"TUNER_CONFIG_FILE", Outcome::pass, "", ""},
    // What containers and builds set, for themselves.
    {"VERSION", Outcome::pass, "", ""},
    {"HOME", Outcome::pass, "", ""},
    {"DIR", Outcome::pass, "", ""},
    {"PATH", Outcome::pass, "", ""},
    {"ROOT", Outcome::pass, "", ""},
    {"ROOT_DIR", Outcome::pass, "", ""},
    {"LIB_DIR", Outcome::pass, "", ""},
    {"LIBRARY", Outcome::pass, "", ""},
    {"LIBRARIES", Outcome::pass, "", ""},
    {"INCLUDE_DIR", Outcome::pass, "", ""},
    {"INCLUDE_DIRS", Outcome::pass, "", ""},
    {"INCLUDE_PATH", Outcome::pass, "", ""},
});

/// Families that plugins and nccl-tests read.
constexpr std::array<std::string_view, 10> kOfOthers{"TESTS_", "FASTRAK_", "GPUDIRECTTCPX_", "FASTSOCKET_", "PLUGIN_",
                                                     "SHARP_", "IBEXT_",   "UCX_",           "OFI_",        "SHIMNET_"};

const NcclName* find_name(std::string_view bare) {
  const auto found = std::ranges::find_if(kNames, [&](const NcclName& one) { return one.name == bare; });
  return found == kNames.end() ? nullptr : &*found;
}

std::string version_text(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

int newest() {
  int most = 0;
  for (const NcclName& one : kNames) most = std::max(most, one.last);
  return most;
}

NameVerdict judge_unknown(std::string_view bare) {
  std::vector<std::string> choices;
  for (const NcclName& one : kNames) choices.emplace_back(one.name);
  // Without "NCCL_", which would make any two short names look alike.
  const std::string nearest = nearest_choice(bare, choices);
  return {Outcome::warn, fmt::format("no NCCL from 2.3.5 to {} reads it", version_text(newest())),
          nearest.empty() ? "unset it" : fmt::format("did you mean NCCL_{}?", nearest)};
}

}  // namespace

std::span<const NcclName> nccl_names() { return kNames; }

NameVerdict judge_nccl_name(std::string_view name, int version) {
  std::string_view bare = name;
  bare.remove_prefix(std::min<std::size_t>(5, bare.size()));
  for (const Told& told : kTold) {
    if (told.name == bare) return {told.outcome, std::string(told.reason), std::string(told.remedy)};
  }
  const NcclName* known = find_name(bare);
  if (known == nullptr) {
    const bool other =
        std::ranges::any_of(kOfOthers, [&](std::string_view family) { return bare.starts_with(family); });
    return other ? NameVerdict{} : judge_unknown(bare);
  }
  const int in_use = version == 0 ? newest() : version;
  if (known->last < in_use && known->last < newest()) {
    return {Outcome::warn,
            known->last == 0 ? "no NCCL since 2.3.5 reads it"
                             : fmt::format("NCCL no longer reads it: {} was the last to", version_text(known->last)),
            "unset it"};
  }
  if (version != 0 && known->first > version) {
    return {
        Outcome::warn,
        fmt::format("NCCL {} does not read it: {} was the first to", version_text(version), version_text(known->first)),
        "unset it, or a newer NCCL"};
  }
  if (!known->documented) {
    return {Outcome::warn, "an internal of NCCL, undocumented: another version may take it otherwise",
            "unset it, unless NCCL's developers or the vendor's guide asked for it"};
  }
  return {};
}

namespace {

using ValueWords = std::vector<std::string>;

bool is_one_of(std::string_view word, const ValueWords& words) {
  return std::ranges::any_of(words, [&](const std::string& one) { return lower_case(one) == lower_case(word); });
}

/// Which of the words it was meant to be; empty where none is near.
std::string nearest_word(std::string_view word, const ValueWords& words) {
  ValueWords small;
  for (const std::string& one : words) small.push_back(lower_case(one));
  const std::string nearest = nearest_choice(lower_case(word), small);
  const auto at = std::ranges::find(small, nearest);
  return nearest.empty() || at == small.end() ? "" : words[static_cast<std::size_t>(at - small.begin())];
}

std::string did_you_mean(const std::string& word) { return fmt::format("did you mean {}?", word); }

std::string meant(std::string_view word, const ValueWords& words) {
  const std::string nearest = nearest_word(word, words);
  return nearest.empty() ? fmt::format("one of {}", fmt::join(words, ", ")) : did_you_mean(nearest);
}

/// "Ring,Tree", "^NVLS", and since NCCL 2.24 "ring;allreduce:tree,nvls".
NameVerdict judge_choices(std::string_view value, const ValueWords& words) {
  for (std::string_view per_function : split_list(value, ';')) {
    if (const std::size_t colon = per_function.find(':'); colon != std::string_view::npos) {
      per_function.remove_prefix(colon + 1);
    }
    if (per_function.starts_with('^')) per_function.remove_prefix(1);
    for (const std::string_view word : split_list(per_function, ',')) {
      if (word.empty())
        return {Outcome::warn, "an element of the list is empty", "take the separator out, or unset it"};
      if (!is_one_of(word, words)) {
        return {Outcome::fail, fmt::format("'{}' is none: NCCL fails, or before 2.24 leaves it out", word),
                meant(word, words)};
      }
    }
  }
  return {};
}

/// A list of which newer versions may have words that are not here: only slips are told.
NameVerdict judge_slips(std::string_view value, const ValueWords& words) {
  if (value.starts_with('^')) value.remove_prefix(1);
  for (const std::string_view word : split_list(value, ',')) {
    if (is_one_of(word, words) || word.empty()) continue;
    if (const std::string nearest = nearest_word(word, words); !nearest.empty()) {
      return {Outcome::warn, fmt::format("'{}' is none that is known", word), did_you_mean(nearest)};
    }
  }
  return {};
}

NameVerdict judge_word(std::string_view value, const ValueWords& words) {
  if (is_one_of(value, words)) return {};
  return {Outcome::warn, fmt::format("'{}' is none: NCCL goes on as if it were not set", value), meant(value, words)};
}

NameVerdict judge_level(std::string_view value) {
  static const ValueWords kLevels{"LOC", "NVL", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"};
  if (!value.empty() && value.find_first_not_of("0123456789-") == std::string_view::npos) {
    return {Outcome::warn, "a number means another distance in every version", "one of LOC, NVL, PIX, PXB, PHB, SYS"};
  }
  return judge_word(value, kLevels);
}

/// Whether NCCL reads a number with strtoll, which takes what stands in front and leaves the rest.
bool is_number_name(std::string_view name) {
  constexpr auto kEnds = std::to_array<std::string_view>(
      {"_DISABLE", "_ENABLE", "_CNT", "BUFFSIZE", "CHUNKSIZE", "_THRESHOLD", "NTHREADS", "NCHANNELS", "_CTAS",
       "_QPS_PER_CONNECTION", "_GID_INDEX", "_TC", "_SL", "_IB_TIMEOUT", "_CROSS_NIC", "_NET_MISMATCH"});
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

NameVerdict judge_number(std::string_view text) {
  const std::string value(text);
  char* end = nullptr;
  const long long number = std::strtoll(value.c_str(), &end, 0);
  if (end == value.c_str()) {
    return {Outcome::warn, "is not a number: NCCL takes 0 or its default, and says so nowhere", "a number"};
  }
  if (*end != '\0') {
    return {Outcome::fail, fmt::format("NCCL reads {} and ignores '{}'", number, end), "a number without unit"};
  }
  return {};
}

std::optional<long long> number_of(std::string_view text) {
  const std::string value(text);
  char* end = nullptr;
  const long long number = std::strtoll(value.c_str(), &end, 0);
  if (end == value.c_str() || *end != '\0') return std::nullopt;
  return number;
}

/// The exponent t of 4.096 us x 2^t (InfiniBand Architecture, local ACK timeout), before each of NCCL_IB_RETRY_CNT
/// tries.
NameVerdict judge_ib_timeout(long long t) {
  if (t < 0) return {};  // NCCL's default
  if (t == 0) return {Outcome::warn, "0 is for ever: a lost link would hang the job", "20, NCCL's default"};
  if (t > 31) {
    return {Outcome::fail, "is an exponent of 5 bits (4.096 us x 2^t), so what the device takes is something else",
            "20, NCCL's default (about 30 s with 7 retries)"};
  }
  if (t <= 22) return {};
  const double seconds = 4.096e-6 * std::exp2(static_cast<double>(t)) * 7;
  return {Outcome::warn, fmt::format("a lost link is noticed after {:.0f} s with 7 retries", seconds),
          "20, NCCL's default (about 30 s)"};
}

NameVerdict judge_debug_file(std::string_view value, const JobShape& job) {
  if (value.starts_with("/dev/") || lower_case(value) == "stdout" || lower_case(value) == "stderr") return {};
  if (value.find("%d") != std::string_view::npos) {
    return {job.one_per_host() ? Outcome::warn : Outcome::fail,
            "%d is kept as it is: all processes of a host write over each other's file", "%h.%p"};
  }
  if (value.find("%p") != std::string_view::npos || job.one_per_host()) return {};
  return {job.on_host ? Outcome::fail : Outcome::warn,
          "without %p all processes of a host write over each other's file", "add %h.%p"};
}

const ValueWords kAlgorithms{"Tree", "Ring", "CollNetDirect", "CollNetChain", "CollNet", "NVLS", "NVLSTree", "PAT"};
const ValueWords kProtocols{"LL", "LL128", "Simple"};
const ValueWords kDebug{"VERSION", "WARN", "INFO", "ABORT", "TRACE"};
const ValueWords kSubsystems{"INIT", "COLL",  "P2P",  "SHM",       "NET", "GRAPH",   "TUNING", "ENV", "ALLOC",
                             "CALL", "PROXY", "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS",    "ALL"};

NameVerdict judge_words(std::string_view name, std::string_view value) {
  if (name == "NCCL_ALGO") return judge_choices(value, kAlgorithms);
  if (name == "NCCL_PROTO") return judge_choices(value, kProtocols);
  if (name == "NCCL_DEBUG") return judge_word(value, kDebug);
  if (name == "NCCL_DEBUG_SUBSYS") return judge_slips(value, kSubsystems);
  if (name == "NCCL_LAUNCH_MODE") return judge_word(value, {"PARALLEL", "GROUP"});
  if (name == "NCCL_P2P_LEVEL" || name == "NCCL_NET_GDR_LEVEL") return judge_level(value);
  return {};
}

}  // namespace

JobShape job_shape(const std::map<std::string, std::string>& environment) {
  const auto number = [&](const char* name) -> std::optional<int> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    const auto value = number_of(found->second);
    return value && *value > 0 ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
  };
  // Open MPI 4 and 5; Slurm with as many tasks on each node; MPICH and its kin.
  JobShape job{number("OMPI_COMM_WORLD_LOCAL_SIZE"), number("OMPI_COMM_WORLD_SIZE")};
  if (!job.on_host) job = {number("SLURM_NTASKS_PER_NODE"), number("SLURM_NTASKS")};
  if (!job.on_host) job = {number("MPI_LOCALNRANKS"), number("PMI_SIZE")};
  return job;
}

NameVerdict judge_nccl_value(std::string_view name, std::string_view value, int version, const JobShape& job) {
  if (name == "NCCL_DEBUG_FILE") return judge_debug_file(value, job);
  if (const NameVerdict words = judge_words(name, value); words.outcome != Outcome::pass) return words;
  if (!is_number_name(name)) return {};
  if (const NameVerdict odd = judge_number(value); odd.outcome != Outcome::pass) return odd;
  const long long number = number_of(value).value_or(0);
  if (name == "NCCL_IB_TIMEOUT") return judge_ib_timeout(number);
  if (const auto wrong = wrong_setting(name, value)) {
    return {name.starts_with("NCCL_IB_") ? Outcome::fail : Outcome::warn, *wrong,
            "unset it, or a value inside the range"};
  }
  if ((name == "NCCL_IB_TC" || name == "NCCL_IB_FIFO_TC") && number > 0 && number % 2 != 0) {
    return {Outcome::warn, "the two lowest bits of a traffic class mark congestion and are not a class",
            "an even value"};
  }
  if (name == "NCCL_BUFFSIZE" && number >= 0) {
    if (number < 1024) return {Outcome::fail, "is a number of bytes, and far too few", "unset it: 4194304 is NCCL's"};
    if (!std::has_single_bit(static_cast<unsigned long long>(number))) {
      return {Outcome::warn, "is not a power of two",
              fmt::format("{}", std::bit_floor(static_cast<unsigned long long>(number)))};
    }
  }
  if (name == "NCCL_IB_GID_INDEX" && number >= 0 && (version == 0 || version >= 22100)) {
    return {Outcome::warn,
            "since NCCL 2.21 the right GID is found without it, and a fixed one breaks where hosts differ", "unset it"};
  }
  return {};
}

NameVerdict judge_slow_setting(std::string_view name, std::string_view value) {
  struct Slow {
    std::string_view name;
    std::string_view values;  // "!0": any number but 0; else the words, lower case, between bars
    std::string_view what;
  };
  constexpr auto kSlow = std::to_array<Slow>({
      {"NCCL_P2P_DISABLE", "!0", "GPUs of a host do not reach each other's memory: no NVLink"},
      {"NCCL_P2P_DIRECT_DISABLE", "!0", "GPUs driven by one process do not reach each other's memory directly"},
      {"NCCL_P2P_LEVEL", "|loc|0|", "GPUs of a host do not reach each other's memory: no NVLink"},
      {"NCCL_SHM_DISABLE", "!0", "ranks of a host that cannot use P2P talk through the network"},
      {"NCCL_IB_DISABLE", "!0", "no InfiniBand and no RoCE: TCP sockets between hosts"},
      {"NCCL_NET", "|socket|", "TCP sockets between hosts"},
      {"NCCL_NET_GDR_LEVEL", "|loc|0|", "the network card does not reach the GPU's memory"},
      {"NCCL_DMABUF_ENABLE", "|0|", "no DMA-BUF: the network card reaches the GPU's memory with nvidia_peermem only"},
      {"NCCL_NVLS_ENABLE", "|0|", "no reductions inside NVSwitch"},
      {"NCCL_CUMEM_ENABLE", "|0|", "no CUMEM: P2P through IPC handles, and no NVLS"},
      {"NCCL_MNNVL_ENABLE", "|0|", "NVLink between hosts of a rack is not used"},
      {"NCCL_PXN_DISABLE", "!0", "messages do not pass through the GPU beside the network card"},
      {"NCCL_MAX_NCHANNELS", "|1|2|3|4|", "so few channels do not fill NVLink or several network cards"},
      {"NCCL_MAX_CTAS", "|1|2|3|4|", "so few channels do not fill NVLink or several network cards"},
      {"NCCL_MAX_NRINGS", "|1|2|3|4|", "so few channels do not fill NVLink or several network cards"},
      {"NCCL_LAUNCH_MODE", "|group|", "kernels of several GPUs of a process are launched together, slower"},
      {"NCCL_CROSS_NIC", "|0|1|", "forced: rings keep to their rail (0) or need not (1); 2 lets NCCL choose"},
      {"NCCL_ALGO", "", "forced: NCCL does not choose by size"},
      {"NCCL_PROTO", "", "forced: NCCL does not choose by size"},
      {"CUDA_LAUNCH_BLOCKING", "!0", "every kernel launch waits for the kernel: nothing overlaps"},
  });
  if (name == "NCCL_IGNORE_NET_MISMATCH" && number_of(value).value_or(0) != 0) {
    return {Outcome::fail, "ranks on different networks are let through, and then hang (NVIDIA/nccl issue 2428)",
            "unset it, and find the rank whose network differs"};
  }
  for (const Slow& slow : kSlow) {
    if (slow.name != name || value.empty()) continue;
    const bool any = slow.values.empty();
    const bool not_zero = slow.values == "!0" && number_of(value).value_or(0) != 0;
    const bool word = slow.values.find(fmt::format("|{}|", lower_case(value))) != std::string_view::npos;
    if (any || not_zero || word) return {Outcome::warn, std::string(slow.what), "unset it, unless it is wanted"};
  }
  return {};
}

std::vector<std::string> taken_by_list(std::string_view list, const std::vector<std::string>& names) {
  const bool all_but = list.starts_with('^');
  if (all_but) list.remove_prefix(1);
  const bool whole = list.starts_with('=');
  if (whole) list.remove_prefix(1);
  std::vector<std::string_view> named;
  for (std::string_view one : split_text(list, ',')) {
    one = one.substr(0, one.find(':'));
    if (!one.empty()) named.push_back(one);
  }
  std::vector<std::string> taken;
  for (const std::string& name : names) {
    const bool found =
        std::ranges::any_of(named, [&](std::string_view one) { return whole ? name == one : name.starts_with(one); });
    if (found != all_but) taken.push_back(name);
  }
  return taken;
}

}  // namespace busbar
