#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "driver/diagnose/job_book.h"
#include "driver/readers/log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

namespace busbar {
namespace {

/// "NET/IB/GDRDMA", "P2P/CUMEM/read": without numbers of devices.
std::string transport_name(const Connection& connection) {
  const bool net = connection.transport == "NET";
  const std::string_view what = net ? connection.network : connection.detail;
  return fmt::format("{}{}{}{}", connection.transport.substr(0, 32), net || !what.empty() ? "/" : "",
                     what.substr(0, 64), net && connection.gdr ? "/GDRDMA" : "");
}

bool has_root(std::string_view op) {
  return op == "Broadcast" || op == "Reduce" || op == "Gather" || op == "Scatter" || op == "Bcast";
}

bool reduces(std::string_view op) { return mentions(op, "Reduce"); }

/// Whether an event is about a new communicator at the address of one that is known.
bool starts_another(const CommInstance& instance, const InitEvent& event) {
  if (instance.comm_id != 0 && event.comm_id != 0 && instance.comm_id != event.comm_id) return true;
  if (instance.rank >= 0 && event.rank >= 0 && instance.rank != event.rank) return true;
  if (instance.nranks >= 0 && event.nranks >= 0 && instance.nranks != event.nranks) return true;
  return !event.complete && event.function != "bootstrapSplit" && (instance.completed || instance.used);
}

}  // namespace

void JobBook::ingest(const CollCall& call, const Place& from) {
  std::uint32_t index = last_instance_;
  if (index == kNoIndex || instances[index].pointer != call.comm || instances[index].process != from.process ||
      instances[index].ended) {
    index = find_instance(from.process, from.source, call.comm);
    last_instance_ = index;
  }
  CommInstance& instance = instances[index];
  instance.used = true;
  if (instance.nranks < 0) instance.nranks = call.nranks;
  Process& process = processes[instance.process];
  const std::uint32_t when = process.calls++;
  LogSource& source = sources[instance.source];
  source.last_call_file = from.file;
  source.last_call_line = from.line;
  instance.op_counts.see(call.op_count);
  if (call.op == "Send") {
    ++instance.sends;
    return;
  }
  if (call.op == "Recv") {
    ++instance.receives;
    return;
  }
  Call kept{.count = call.count, .op_count = static_cast<std::uint32_t>(call.op_count), .when = when};
  kept.op = words.id(call.op);
  kept.dtype = words.id(call.dtype);
  // A user's own reduction is a handle: its number may differ from rank to rank.
  const bool handle = call.redop.size() > 1 && call.redop[0] >= '0' && call.redop[0] <= '9';
  kept.redop = words.id(!reduces(call.op) ? "" : handle ? "user" : call.redop);
  kept.root = has_root(call.op) ? static_cast<std::int32_t>(call.root) : -1;
  instance.calls.add(kept, words);
}

void JobBook::ingest(const InitEvent& event, const Place& from) {
  std::uint32_t index = event.comm != 0 ? live_instance(from.process, event.comm) : kNoIndex;
  if (index == kNoIndex || starts_another(instances[index], event)) {
    index = new_instance(from.process, from.source, event.comm);
  }
  CommInstance& instance = instances[index];
  if (instance.ncalls() == 0) instance.announced = true;
  instance.source = from.source;
  if (event.rank >= 0) instance.rank = event.rank;
  if (event.nranks >= 0) instance.nranks = event.nranks;
  if (event.comm_id != 0) instance.comm_id = event.comm_id;
  if (!event.function.empty()) instance.function = event.function.substr(0, 64);
  if (event.color != -1) instance.color = event.color;
  if (event.parent != 0 && instance.parent == 0) {
    instance.parent = event.parent;
    instance.parent_instance = live_instance(from.process, event.parent);
    if (instance.parent_instance != kNoIndex) instances[instance.parent_instance].used = true;
  }
  sources[from.source].instance = index;
  // 2.3 and 2.4 announce a communicator without an end; START is printed from 2.18.3 on, with all its fields.
  const bool oldest = event.function.empty() && event.comm_id == 0 && event.bus_id.empty();
  if (event.function == "bootstrapSplit") instance.reach(InitStage::bootstrap);
  if (event.function == "bootstrapSplit" || (oldest && !event.complete)) return;
  if (event.complete) {
    sources[from.source].forgive_tries();
    instance.completed = true;
    instance.stage = InitStage::complete;
  } else {
    instance.started = true;
    instance.reach(InitStage::started);
  }
}

void JobBook::ingest(const CommShape& shape, const Place& from) {
  const std::uint32_t index = find_instance(from.process, from.source, shape.comm);
  CommInstance& instance = instances[index];
  if (instance.calls.size() == 0) instance.announced = true;
  if (shape.rank >= 0) instance.rank = shape.rank;
  if (shape.nranks >= 0) instance.nranks = shape.nranks;
  if (shape.nnodes >= 0) instance.nnodes = shape.nnodes;
  instance.reach(InitStage::bootstrap);
  sources[from.source].instance = index;
}

void JobBook::ingest(const Connection& connection, const Place& from) {
  LogSource& source = sources[from.source];
  const std::string via = transport_name(connection);
  note("transport", via);
  if (source.instance != kNoIndex) {
    CommInstance& instance = instances[source.instance];
    instance.reach(InitStage::connect);
    instance.last_connection = std::to_string(connection.src) + " -> " + std::to_string(connection.dst) + " via " + via;
  }
  const std::tuple key{source.instance, connection.src, connection.dst, via};
  add_count(source.connections, key, 1, kMaxConnections);
}

void JobBook::ingest(const Connected& connected, const Place& from) {
  const LogSource& source = sources[from.source];
  if (source.instance != kNoIndex) {
    const bool rings = connected.what == Connected::What::rings;
    instances[source.instance].reach(rings ? InitStage::rings : InitStage::trees);
  }
  static constexpr std::string_view kWords[] = {"rings", "trees", "nvls"};
  note("connected", kWords[static_cast<std::size_t>(connected.what)]);
  if (connected.what == Connected::What::nvls) note("nvls", "on");
  if (connected.pxn >= 0) note("ring_pxn", std::to_string(connected.pxn));
  if (connected.gdr >= 0) note("ring_gdr", std::to_string(connected.gdr));
}

void JobBook::ingest(const InitTimings& timings, const Place& from) {
  LogSource& source = sources[from.source];
  if (source.hint_rank < 0) {
    source.hint_rank = timings.rank;
    source.hint_nranks = timings.nranks;
  }
  if (timings.total > source.timings.total) source.timings = timings;
}

void JobBook::ingest(const BootstrapTimings& timings, const Place& from) {
  LogSource& source = sources[from.source];
  if (timings.total > source.bootstrap.total) source.bootstrap = timings;
  if (source.instance != kNoIndex) instances[source.instance].reach(InitStage::bootstrap);
}

void JobBook::count_warning(const Warning& warning, std::string_view timestamp, const Place& from) {
  note_absent_network(warning.text, from.process);
  const WarningWriter writer{.source = from.source, .ranks = {}, .host = {}, .device = {}};
  const LineRule& rule = classify_warning(warning.file, warning.text);
  warnings.add(rule, warning, timestamp, writer, from.file, from.line);
  if (rule.kind == RuleKind::harmless) return;
  ++sources[from.source].warnings;
  if (rule.kind == RuleKind::victim) ++sources[from.source].victim_warnings;
  note_peers(rule.kind, warning.text);
}

// A missing network or plugin: no fault unless it was requested.
void JobBook::note_absent_network(std::string_view text, std::uint32_t process) {
  constexpr std::string_view kNamed = "Plugin name set by env to ";  // up to 2.26
  Process& of = processes[process];
  const bool of_plugins = text.starts_with("NET/Plugin") || text.starts_with("Plugin name ");
  if (const std::size_t at = text.find(kNamed); of_plugins && at != kNotFound && of.env.size() < kMaxSettings) {
    of.env.emplace("NCCL_NET_PLUGIN", without_blanks(text.substr(at + kNamed.size(), 300)));
    return;
  }
  constexpr std::size_t kMost = 8;
  const bool absent = builtin_line_rules().has("absent-networks", text);
  if (absent && of.absent_networks.size() < kMost) of.absent_networks.emplace(text.substr(0, 500));
}

void JobBook::note_peers(RuleKind kind, std::string_view text) {
  if (kind != RuleKind::victim && kind != RuleKind::unreachable && kind != RuleKind::refused &&
      kind != RuleKind::hardware)
    return;
  for (const std::string& address : addresses_in(text)) {
    if (named_peers.size() < kMaxFacts) ++named_peers[{kind, address}];
  }
}

/// The blocks in which torchrun and Hydra report which process failed first.
void JobBook::note_failed(std::string_view text) {
  LineFacts found = builtin_line_rules().facts_in("failed", text);
  if (found.contains("begins")) {
    elastic_ = {};
    elastic_.name = found["begins"];
  }
  if (found.contains("time")) elastic_.time = found["time"];
  if (found.contains("host")) elastic_.host = found["host"].substr(0, 256);
  if (const auto rank = number_of<int>(found["rank"])) elastic_.ranks = {*rank};
  if (const auto pid = number_of<std::int64_t>(found["pid"])) elastic_.pid = *pid;
}

void JobBook::note_help(std::string_view line, std::size_t file, std::uint64_t number) {
  constexpr std::size_t kDashes = 74, kMostLines = 40;
  const bool dashes = line.size() == kDashes && line.find_first_not_of('-') == kNotFound;
  const bool closes = dashes && !help_.text.empty();
  if (closes || (help_.lines > 0 && (file != help_.file || help_.lines > kMostLines))) end_help();
  if (dashes) {
    if (!closes) help_ = {.lines = 1, .file = file, .line = number + 1, .text = {}, .held = {}};
  } else if (help_.lines > 0) {
    ++help_.lines;
    help_.text.append(line).push_back(' ');
  }
}

void JobBook::end_help() {
  Help help = std::exchange(help_, {});
  if (!help.decided && !builtin_line_rules().matches(help.text, true).empty()) {
    note_program(help.text, help.file, help.line, true);
    return;
  }
  for (ProgramNote& note : help.held) count(std::move(note));
}

void JobBook::note_program(std::string_view text, std::size_t file, std::uint64_t number, bool help) {
  if (opens_error(text)) {
    error_line_ = number;
    error_file_ = file;
    return;
  }
  if (mentions(text, "[repeated ") && mentions(text, " across cluster]")) {
    note("ray_dedup", "lines of other ranks left out");
  }
  const bool in_error = error_line_ > 0 && number <= error_line_ + 3 && file == error_file_;
  const auto follows = [&](std::string_view id) {
    const auto head = heads_.find(id);
    return head != heads_.end() && head->second.file == file && number - head->second.line <= kReachOfRule;
  };
  const LineWriter writer = find_writer(text.substr(0, 4096));
  if (writer.label >= 0 && writer.own >= 0 && writer.label != writer.own) labels_lie_ = true;
  std::vector<ProgramEvent> events = read_program_line(writer, {in_error, labels_lie_, help, follows});
  if (events.empty() && in_error && number == error_line_ + 1) {
    events.emplace_back();
    events.back().text = std::string(writer.text.substr(0, 500));
  }
  for (ProgramEvent& event : events) {
    ++understood;
    // A traceback without decorations after a line of one rank is that rank's: SGLang decorates the head alone.
    // So does MPICH, whose lines of a stack come without the rank of its head.
    const bool mpich = writer.rank >= 0 && event.rule != nullptr && event.rule->program == "mpich" &&
                       event.rule->blame != RuleBlame::nobody;
    if (event.what == ProgramEvent::What::traceback || mpich) {
      const int rank = event.ranks.empty() ? writer.rank : event.ranks.front();
      if (rank >= 0 || !follows("traceback")) traced_rank_ = rank;
      bare_trace_ = mpich || writer.rank < 0;
      heads_["traceback"] = {kNoIndex, kNoIndex, file, number};
    } else if (bare_trace_ && traced_rank_ >= 0 && event.ranks.empty() && follows("traceback") &&
               (event.rule == nullptr || event.rule->blame != RuleBlame::nobody)) {
      event.ranks = {traced_rank_};
    }
    event.time = builtin_line_rules().facts_in("times", text.substr(0, 200))["time"];
    if (event.rule != nullptr) heads_[event.rule->id] = {kNoIndex, kNoIndex, file, number};
    const bool of_host = event.rule != nullptr && event.rule->blame != RuleBlame::nobody &&
                         (event.rule->kind == RuleKind::hardware || event.rule->program == "kernel");
    if (of_host && event.host.empty()) event.host = prompted_[file];
    if (in_error && event.what == ProgramEvent::What::error) event.name = kLastError;
    if (help_.lines > 0 && event.rule != nullptr && event.rule->id == "error") {
      help_.held.push_back({std::move(event), file, number, 1});
      continue;
    }
    help_.decided = help_.decided || event.rule != nullptr;
    if (event.what == ProgramEvent::What::ended && event.name.empty() && event.ranks.empty() && event.host.empty()) {
      event.ranks = elastic_.ranks;
      event.host = elastic_.host;
      event.name = elastic_.name;
      if (event.time.empty()) event.time = elastic_.time;
      if (event.pid < 0) event.pid = elastic_.pid;
    }
    if (event.what == ProgramEvent::What::message) {
      const Warning warning{.file = {}, .function = {}, .text = event.text};
      const WarningWriter writer{.source = kNoIndex, .ranks = event.ranks, .host = event.host, .device = event.device};
      warnings.add(*event.rule, warning, find_iso_timestamp(text.substr(0, 120)), writer, file, number);
      note_peers(event.rule->kind, event.text);
      continue;
    }
    if (event.what == ProgramEvent::What::healthy) {
      note("works", event.rule->means);
      steps[file].push_back(number);
    } else {
      count(ProgramNote{std::move(event), file, number, 1});
    }
  }
}

void JobBook::ingest(const ReturnCode& code, const Place& from) {
  LogSource& source = sources[from.source];
  ++source.failures;
  if (source.instance == kNoIndex || !instances[source.instance].completed) ++source.tries;
  if (return_codes.size() < kMaxFacts) ++return_codes[{code.code, std::string(code.thread.substr(0, 64))}];
}

void JobBook::ingest(const CommEnd& end, const Place& from) {
  const std::uint32_t index = find_instance(from.process, from.source, end.comm);
  CommInstance& instance = instances[index];
  if (instance.rank < 0) instance.rank = end.rank;
  instance.used = instance.used || !end.abort;
  instance.ended = true;
  instance.aborted = end.abort;
  if (end.abort) ++sources[instance.source].failures;
  note("communicators_ended", end.abort ? "abort" : "destroy");
}

// Versions, settings, devices and choices: facts for people and for the comparison of ranks.

void JobBook::ingest(const TuningChoice& choice, const Place&) {
  static constexpr std::string_view kAlgos[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE"};
  static constexpr std::string_view kProtos[] = {"LL", "LL128", "SIMPLE"};
  const auto word = [](std::string_view told, std::span<const std::string_view> names) {
    if (told.size() == 1 && told[0] >= '0' && static_cast<std::size_t>(told[0] - '0') < names.size())
      return std::string(names[static_cast<std::size_t>(told[0] - '0')]);
    std::string upper(told.substr(0, 32));
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return upper;
  };
  const std::string algo = word(choice.algo, kAlgos);
  const std::string proto = word(choice.proto, kProtos);
  note("tuning_algo", algo);
  note("tuning_proto", proto);
  if (tuning.size() >= kMaxFacts) return;
  ++tuning[{std::string(choice.op.substr(0, 64)), std::bit_width(choice.bytes), algo + "/" + proto}];
}

void JobBook::ingest(const VersionLine& version, const Place& from) {
  Process& process = processes[from.process];
  if (!version.nccl.empty()) process.nccl = version.nccl.substr(0, 64);
  if (!version.cuda.empty()) process.cuda = version.cuda.substr(0, 64);
  note("nccl_version", version.nccl);
  note("cuda_version", version.cuda);
}

void JobBook::ingest(const EnvSetting& setting, const Place& from) {
  Process& process = processes[from.process];
  std::string_view value = without_blanks(setting.value);
  if (value.ends_with('.')) value.remove_suffix(1);
  std::string name(setting.name.substr(0, 100));
  note("env." + name, value.empty() ? "(empty)" : value);
  if (process.env.contains(name) || process.env.size() < kMaxSettings)
    process.env[std::move(name)] = std::string(value.substr(0, 300));
}

void JobBook::ingest(const NetworkInUse& network, const Place& from) {
  sources[from.source].forgive_tries();
  processes[from.process].network = without_blanks(network.network).substr(0, 64);
  note("network", processes[from.process].network);
}

void JobBook::ingest(const NetDevices& devices, const Place& from) {
  Process& process = processes[from.process];
  for (const std::string& address : addresses_in(devices.oob)) process.addresses.insert(address);
  if (devices.network != "IB") {
    for (const std::string& address : addresses_in(devices.devices)) process.addresses.insert(address);
  }
  if (devices.network == "OFI") {
    note("provider", devices.devices.substr(0, devices.devices.find(' ')));
    constexpr std::string_view kFound = "(found ";
    const std::size_t at = devices.devices.find(kFound);
    if (at != kNotFound) note("nics", LogScan{devices.devices.substr(at + kFound.size())}.word());
    return;
  }
  if (devices.network == "IB" && without_blanks(devices.devices).empty()) note("ib_device", "none");
  if (devices.relaxed_ordering) note("relaxed_ordering", "on");
  if (process.devices.size() < kMaxSettings) {
    process.devices[std::string(devices.network.substr(0, 64))] = without_blanks(devices.devices).substr(0, 4096);
  }
  for (const NetDevice& device : net_devices(devices.devices)) {
    note(devices.network == "IB" ? "hca" : "interface", device.name);
    if (!device.link.empty()) note("link_layer", device.link);
  }
  for (const NetDevice& device : net_devices(devices.oob)) {
    note(devices.network == "Bootstrap" ? "bootstrap_interface" : "oob_interface", device.name);
  }
}

void JobBook::ingest(const OtherLine& other, const Place& from) {
  const std::string_view text = other.text;
  if (!other.nccl) {
    ingest_foreign(text, from.file, from.line);
    return;
  }
  note_absent_network(text, from.process);
  // Only the last line of a log is cut; any line that follows takes this back.
  sources[from.source].cut = !other.chatter && mentions(text, ": opCount");
  for (const auto& [key, value] : builtin_line_rules().facts_in("facts", text)) note(key, value);
}

}  // namespace busbar
