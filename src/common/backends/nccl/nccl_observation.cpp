#include "common/backends/nccl/nccl_observation.h"

#include "common/backends/nccl/nccl_fields.h"
#include "common/backends/transfers.h"
#include "common/backends/tuner_table.h"
#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "common/machine/shared_library.h"

#include <fmt/format.h>
#include <pwd.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

namespace busbar {
namespace {

/// NCCL's name for the collective in its profiler and its log; empty if it is built from transfers.
std::string_view nccl_function(CollectiveId id) {
  switch (id) {
    case CollectiveId::all_reduce:
      return "AllReduce";
    case CollectiveId::all_gather:
      return "AllGather";
    case CollectiveId::reduce_scatter:
      return "ReduceScatter";
    case CollectiveId::broadcast:
    case CollectiveId::all_gatherv:
      return "Broadcast";
    case CollectiveId::reduce:
    case CollectiveId::reduce_scatterv:
      return "Reduce";
    default:
      return {};
  }
}

std::optional<SymmetricKernel> symmetric_kernel(std::string_view line) {
  constexpr std::string_view kMessage = " NCCL INFO ";
  const std::size_t message = line.find(kMessage);
  if (message == std::string_view::npos) return std::nullopt;
  LogScan scan{line.substr(message + kMessage.size())};
  SymmetricKernel kernel;
  std::uint64_t nbytes = 0;
  kernel.function = scan.name();
  if (!scan.take(" [Symmetric]: ") || !scan.number(nbytes) || !scan.take(" Bytes -> Kernel ")) return std::nullopt;
  kernel.kernel = scan.name();
  return scan.take(" nchannels ") && scan.number(kernel.channels) ? std::optional(kernel) : std::nullopt;
}

/// The row's answer, if all values agree.
template <class Range, class Get>
auto unanimous(const Range& range, Get get) -> std::optional<std::decay_t<decltype(get(*range.begin()))>> {
  if (range.empty()) return std::nullopt;
  const auto first = get(*range.begin());
  for (const auto& item : range)
    if (get(item) != first) return std::nullopt;
  return first;
}

std::string channel_text(const std::vector<LaunchedTask>& tasks) {
  const auto [least, most] = std::ranges::minmax_element(tasks, {}, &LaunchedTask::channels);
  if (least->channels <= 0) return "-";
  return least->channels == most->channels ? std::to_string(least->channels)
                                           : fmt::format("{}-{}", least->channels, most->channels);
}

/// For the slowest local rank, in seconds. Null if NCCL has no prediction or not a true one, as for a group of calls.
std::optional<double> predicted_s(const Operation& op, const Observed& observed, const LaunchedTask& task) {
  if (called_per_block(*op.collective) != nullptr) return std::nullopt;
  const auto function = tuner_collective(task.function);
  const auto algorithm = tuner_algorithm(task.algorithm);
  const auto protocol = tuner_protocol(task.protocol);
  if (!function || !algorithm || !protocol) return std::nullopt;
  // NCCL multiplies its times of fp8 rings beyond 8 ranks by 1024, to choose them last.
  if (is_fp8(op.dtype) && op.problem.nranks > 8 && *algorithm == TunerAlgorithm::ring) return std::nullopt;
  std::optional<double> slowest;
  for (const PredictedTimes& p : observed.predictions) {
    const std::size_t at = static_cast<std::size_t>(*algorithm) * p.nprotocols + static_cast<std::size_t>(*protocol);
    if (p.function != static_cast<int>(*function) || static_cast<int>(*protocol) >= p.nprotocols) continue;
    if (at >= p.times_us.size() || p.times_us[at] < 0) continue;
    slowest = std::max(slowest.value_or(0), static_cast<double>(p.times_us[at]) * 1e-6);
  }
  return slowest;
}

ShownAlgorithm collective_shown(const Operation& op, const Observed& observed, const std::vector<LaunchedTask>& tasks) {
  const auto algorithm = unanimous(tasks, [](const LaunchedTask& t) { return std::pair(t.algorithm, t.protocol); });
  if (!algorithm) return {};
  return {algorithm->first, algorithm->second, channel_text(tasks), predicted_s(op, observed, tasks.front())};
}

/// NCCL's word for a plugin inside the executable, here ours.
constexpr const char* kOwnPlugin = "STATIC_PLUGIN";

/// The user's plugin, if the variable names one other than ours; "none" is a choice of the user, too.
std::optional<std::string> users_plugin(const ReadNcclSetting& setting, const char* variable) {
  const std::optional<std::string> value = setting(variable);
  if (!value || value->empty() || strcasecmp(value->c_str(), kOwnPlugin) == 0) return std::nullopt;
  return value;
}

/// Why no prediction is available, or empty.
std::string no_prediction(const Config& config, const ReadNcclSetting& setting, const std::string& installed_tuner) {
  if (config.cta_policy) return "a tuner, which would report it, changes how NCCL chooses with -x";
  if (const auto tuner = users_plugin(setting, "NCCL_TUNER_PLUGIN"))
    return fmt::format("NCCL_TUNER_PLUGIN={} is kept, and NCCL takes only one tuner", *tuner);
  if (!installed_tuner.empty())
    return fmt::format("NCCL finds the tuner {} here, which is kept: it is part of what is measured", installed_tuner);
  return {};
}

/// "NCCL_DEBUG=INFO": the user's setting that NCCL's log follows, if any.
std::optional<std::string> claim_on_log(const ReadNcclSetting& setting) {
  for (const char* variable : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"})
    if (const auto value = setting(variable)) return fmt::format("{}={}", variable, *value);
  return std::nullopt;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string user_conf_file() {
  const char* named = std::getenv("NCCL_CONF_FILE");
  if (named != nullptr && *named != '\0') return named;
  const passwd* user = getpwuid(getuid());
  return user != nullptr && user->pw_dir != nullptr ? fmt::format("{}/.nccl.conf", user->pw_dir) : std::string();
}

bool holds_tuner(const std::string& file) {
  const SharedLibrary library = open_library(file);
  for (int version = 2; library != nullptr && version <= 9; ++version)
    if (dlsym(library.get(), fmt::format("ncclTunerPlugin_v{}", version).c_str()) != nullptr) return true;
  return false;
}

}  // namespace

void NcclObservation::set_mask(int mask) noexcept {
  if (mask_ != nullptr) __atomic_store_n(mask_, mask, __ATOMIC_RELAXED);  // NCCL reads it from all its threads
}

void NcclObservation::attach(int* activation_mask, Logger logger, int wanted) noexcept {
  const std::lock_guard lock(mutex_);
  mask_ = activation_mask;
  logger_ = logger;
  wanted_ = wanted;
  set_mask(observing() ? wanted_ : 0);
}

bool NcclObservation::attached() const noexcept {
  const std::lock_guard lock(mutex_);
  return mask_ != nullptr;
}

void NcclObservation::start() {
  const std::lock_guard lock(mutex_);
  observed_ = {};
  ++generation_;
  kernels_.clear();
  phases_.clear();
  observing_ = true;
  set_mask(wanted_);
}

Observed NcclObservation::end() {
  constexpr std::chrono::milliseconds kPatience(100);  // NCCL's thread polls every ten microseconds
  std::unique_lock lock(mutex_);
  set_mask(0);
  ended_.wait_for(lock, kPatience, [this] { return all_ended(); });
  observing_ = false;
  ++generation_;
  observed_.phases = phases_by_rank();
  return std::exchange(observed_, {});
}

void NcclObservation::add(LaunchedTask task) noexcept { keep(observed_.tasks, std::move(task)); }

void NcclObservation::add(PredictedTimes times) noexcept { keep(observed_.predictions, std::move(times)); }

template <class Item>
void NcclObservation::keep(std::vector<Item>& kept, Item item) noexcept try {
  const std::lock_guard lock(mutex_);
  if (observing()) kept.push_back(std::move(item));
} catch (...) {
  return;  // no memory: the row says "unknown"
}

void* NcclObservation::handle(std::size_t index) const noexcept {
  static_assert(sizeof(void*) == 8);
  return reinterpret_cast<void*>((std::uint64_t{generation_} << 32) | (index + 1));
}

std::optional<std::size_t> NcclObservation::index(const void* handle, std::size_t size) const noexcept {
  const auto bits = reinterpret_cast<std::uint64_t>(handle);
  const std::uint64_t at = bits & 0xffffffff;
  return bits >> 32 == generation_ && at >= 1 && at <= size ? std::optional(at - 1) : std::nullopt;
}

void* NcclObservation::begin_kernel(int rank, int channels) noexcept try {
  const std::lock_guard lock(mutex_);
  if (!observing()) return nullptr;
  kernels_.push_back({.rank = rank, .channels = channels});
  return handle(kernels_.size() - 1);
} catch (...) {
  return nullptr;
}

void NcclObservation::end_channel(void* kernel) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = index(kernel, kernels_.size());
  if (!at) return;
  ++kernels_[*at].ended;
  if (all_ended()) ended_.notify_all();
}

void* NcclObservation::begin_phase(void* kernel, int phase, std::uint64_t at_ns) noexcept try {
  const std::lock_guard lock(mutex_);
  const auto at = index(kernel, kernels_.size());
  if (!at || phase < 0 || phase >= kPhases) return nullptr;
  phases_.push_back({*at, phase, at_ns});
  return handle(phases_.size() - 1);
} catch (...) {
  return nullptr;
}

void NcclObservation::end_phase(void* phase, std::uint64_t at_ns) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = index(phase, phases_.size());
  if (!at) return;
  const Phase& ended = phases_[*at];
  if (at_ns > ended.start_ns)
    kernels_[ended.kernel].ns[static_cast<std::size_t>(ended.phase)] += at_ns - ended.start_ns;
}

bool NcclObservation::all_ended() const noexcept {
  return std::ranges::all_of(kernels_, [](const Kernel& k) { return k.ended >= k.channels; });
}

std::vector<KernelPhases> NcclObservation::phases_by_rank() const {
  std::vector<KernelPhases> phases;
  for (const Kernel& k : kernels_) {
    const std::uint64_t all_ns = k.ns[0] + k.ns[1] + k.ns[2];
    if (k.channels <= 0 || k.ended < k.channels || all_ns == 0) continue;  // not instrumented, or not reported in time
    const auto mean_s = [&](std::size_t phase) { return static_cast<double>(k.ns[phase]) * 1e-9 / k.channels; };
    phases.push_back({k.rank, mean_s(0), mean_s(1), mean_s(2)});
  }
  std::ranges::sort(phases, {}, &KernelPhases::rank);
  return phases;
}

void NcclObservation::touch_log() const noexcept {
  constexpr int kInfo = 3;
  constexpr unsigned long kTuning = 0x40;
  Logger logger = nullptr;
  {
    const std::lock_guard lock(mutex_);
    logger = logger_;
  }
  if (logger != nullptr) logger(kInfo, kTuning, __FILE__, __LINE__, "busbar: end of the observed operation");
}

NcclObservation& nccl_observation() {
  static NcclObservation observation;
  return observation;
}

std::vector<SymmetricKernel> symmetric_kernels(std::string_view tuning_log) {
  std::vector<SymmetricKernel> kernels;
  for (const std::string_view line : split_text(tuning_log, '\n'))
    if (auto kernel = symmetric_kernel(line)) kernels.push_back(std::move(*kernel));
  return kernels;
}

bool is_one_all_gatherv(const Operation& op, int version) {
  if (op.collective->id != CollectiveId::all_gatherv || version < kNcclWithAllGatherV) return false;
  int roots = 0;
  for (int rank = 0; rank < op.problem.nranks; ++rank) roots += op.collective->block(op.problem, rank) > 0 ? 1 : 0;
  return roots > 1;
}

ShownAlgorithm shown_algorithm(const Operation& op, const Observed& observed, std::string_view tuning_log) {
  const std::string_view function = nccl_function(op.collective->id);
  if (!observed.tasks.empty() && std::ranges::all_of(observed.tasks, &LaunchedTask::copy_engines))
    return {"copy_engines", "-", "-", std::nullopt};
  std::vector<LaunchedTask> collectives;
  std::vector<LaunchedTask> transfers;
  for (const LaunchedTask& t : observed.tasks) (t.transfer ? transfers : collectives).push_back(t);
  if (!collectives.empty()) {
    const auto launched = unanimous(collectives, [](const LaunchedTask& t) { return t.function; });
    return launched == function ? collective_shown(op, observed, collectives) : ShownAlgorithm{};
  }
  // NCCL does not report a transfer's protocol.
  if (!transfers.empty()) return {"p2p", "-", channel_text(transfers), std::nullopt};

  const std::vector<SymmetricKernel> kernels = symmetric_kernels(tuning_log);
  const auto kernel = unanimous(kernels, [](const SymmetricKernel& k) { return k; });
  if (!kernel || kernel->function != function) return {};
  return {kernel->kernel, "sym", std::to_string(kernel->channels), std::nullopt};
}

ObservationSetup plan_observation(const Config& config, const ReadNcclSetting& setting,
                                  const std::string& installed_tuner) {
  ObservationSetup setup;
  if (config.init_phases) {
    const auto claim = claim_on_log(setting);
    setup.init_log = !claim;
    if (claim) {
      setup.remarks.push_back(fmt::format(
          "the phases of creation are unknown: NCCL reports them only in its log, which {} claims", *claim));
    }
  }
  if (!config.show_algo) return setup;
  if (const auto profiler = users_plugin(setting, "NCCL_PROFILER_PLUGIN")) {
    setup.remarks.push_back(fmt::format(
        "--show-algo: NCCL_PROFILER_PLUGIN={} is kept, so NCCL does not report to busbar what it runs", *profiler));
    return setup;
  }
  setup.settings.push_back({"NCCL_PROFILER_PLUGIN", kOwnPlugin, true});
  if (config.show_prediction) {
    const std::string why = no_prediction(config, setting, installed_tuner);
    if (why.empty()) {
      setup.settings.push_back({"NCCL_TUNER_PLUGIN", kOwnPlugin, true});
    } else {
      setup.remarks.push_back(fmt::format("--show-prediction: none: {}", why));
    }
  }
  if (config.local_register == 2) {
    setup.tuning_log = true;
    // Set for an earlier communicator of this process.
    if (setting("NCCL_DEBUG_FILE").value_or("").starts_with(kOwnLogFiles)) return setup;
    if (const auto claim = claim_on_log(setting)) {
      setup.tuning_log = false;
      setup.remarks.push_back(fmt::format(
          "--show-algo: symmetric kernels (-R 2) are unknown: NCCL reports them only in its log, which {} claims",
          *claim));
    }
  }
  return setup;
}

std::optional<std::string> conf_file_value(std::string_view text, std::string_view name) {
  for (const std::string_view line : split_text(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (!line.starts_with('#') && equals != std::string_view::npos && line.substr(0, equals) == name)
      return std::string(line.substr(equals + 1));
  }
  return std::nullopt;
}

std::optional<std::string> nccl_setting(const char* name) {
  if (const char* value = std::getenv(name)) return value;
  for (const std::string& file : {user_conf_file(), std::string("/etc/nccl.conf")})
    if (auto value = conf_file_value(read_text(file), name)) return value;
  return std::nullopt;
}

std::string find_installed_tuner(const ReadNcclSetting& setting) {
  std::string network = setting("NCCL_NET_PLUGIN").value_or("");
  if (network.empty()) network = "libnccl-net.so";
  // NCCL tries the name itself first, then as part of a file name.
  for (const std::string& file :
       {std::string("libnccl-tuner.so"), network, fmt::format("libnccl-net-{}.so", network)}) {
    if (strcasecmp(file.c_str(), "none") != 0 && holds_tuner(file)) return file;
  }
  return {};
}

}  // namespace busbar
