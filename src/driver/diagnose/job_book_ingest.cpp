#include "common/base/log_scan.h"
#include "common/base/text.h"
#include "driver/diagnose/job_book.h"
#include "driver/readers/log_line.h"
#include "driver/rules/remedies.h"

#include <fmt/format.h>

#include <bit>
#include <string>

namespace busbar {
namespace {

/// "IB/0(8)/GDRDMA/Shared": the network's name ends before "/DEVICE", and may hold spaces and '/'.
std::string_view network_of(std::string_view detail) {
  for (std::size_t at = detail.find('/'); at != kNotFound; at = detail.find('/', at + 1)) {
    if (at + 1 < detail.size() && is_digit(detail[at + 1])) return detail.substr(0, at);
  }
  return detail.substr(0, detail.find('/'));
}

/// Of a connection: "NET/IB/GDRDMA", "P2P/CUMEM/read", without numbers of devices.
std::string transport_name(const LineShape& of) {
  const std::string_view transport = of.text("transport"), detail = of.text("detail"), old = of.text("shm");
  if (!old.empty()) return fmt::format("SHM/{}", old);  // up to 2.12
  if (transport == "NET")
    return fmt::format("NET/{}{}", network_of(detail).substr(0, 64), mentions(detail, "/GDRDMA") ? "/GDRDMA" : "");
  return fmt::format("{}{}{}", transport.substr(0, 32), detail.empty() ? "" : "/", detail.substr(0, 64));
}

bool has_root(std::string_view op) {
  return op == "Broadcast" || op == "Reduce" || op == "Gather" || op == "Scatter" || op == "Bcast";
}

/// Whether the message is about a new communicator at the address of one that is known.
bool starts_another(const CommInstance& instance, const LineShape& init) {
  const std::uint64_t id = pointer_in(init, "id");
  const int rank = init.number("rank"), nranks = init.number("nranks");
  if (instance.comm_id != 0 && id != 0 && instance.comm_id != id) return true;
  if (instance.rank >= 0 && rank >= 0 && instance.rank != rank) return true;
  if (instance.nranks >= 0 && nranks >= 0 && instance.nranks != nranks) return true;
  return init.text("end") != "COMPLETE" && init.text("function") != "bootstrapSplit" &&
         (instance.completed || instance.used);
}

void note_init(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  book.begin_job(from.file);
  const std::uint64_t comm = pointer_in(of, "comm"), id = pointer_in(of, "id"), parent = pointer_in(of, "parent");
  const std::string_view function = of.text("function");
  const bool complete = of.text("end") == "COMPLETE";
  std::uint32_t index = comm != 0 ? book.live_instance(from.process, comm) : kNoIndex;
  if (index == kNoIndex || starts_another(book.instances[index], of))
    index = book.new_instance(from.process, from.source, comm);
  CommInstance& instance = book.instances[index];
  if (instance.ncalls() == 0) instance.announced = true;
  instance.source = from.source;
  instance.rank = of.number("rank");
  instance.nranks = of.number("nranks");
  if (id != 0) instance.comm_id = id;
  if (!function.empty()) instance.function = function.substr(0, 64);
  if (!of.text("color").empty()) instance.color = of.number<std::int64_t>("color");
  if (parent != 0 && instance.parent == 0) {
    instance.parent = parent;
    instance.parent_instance = book.live_instance(from.process, parent);
    if (instance.parent_instance != kNoIndex) book.instances[instance.parent_instance].used = true;
  }
  book.sources[from.source].instance = index;
  // 2.3 and 2.4 announce a communicator without an end; START is printed from 2.18.3 on, with all its fields.
  const bool oldest = function.empty() && id == 0 && of.text("bus").empty();
  if (function == "bootstrapSplit") instance.reach(InitStage::bootstrap);
  if (function == "bootstrapSplit" || (oldest && !complete)) return;
  if (complete) {
    book.sources[from.source].forgive_tries();
    instance.completed = true;
    instance.stage = InitStage::complete;
  } else {
    instance.started = true;
    instance.reach(InitStage::started);
  }
}

void note_shape(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  const std::uint32_t index = book.find_instance(from.process, from.source, pointer_in(of, "comm"));
  CommInstance& instance = book.instances[index];
  if (instance.calls.size() == 0) instance.announced = true;
  instance.rank = of.number("rank");
  instance.nranks = of.number("nranks");
  instance.nnodes = of.number("nnodes");
  instance.reach(InitStage::bootstrap);
  book.sources[from.source].instance = index;
}

void note_end(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  const bool aborted = of.text("end") == "Abort";
  CommInstance& instance = book.instances[book.find_instance(from.process, from.source, pointer_in(of, "comm"))];
  if (instance.rank < 0) instance.rank = of.number("rank");
  instance.used = instance.used || !aborted;
  instance.ended = true;
  instance.aborted = aborted;
  if (aborted) ++book.sources[instance.source].failures;
  book.note("communicators_ended", aborted ? "abort" : "destroy");
}

void note_bootstrap(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  LogSource& source = book.sources[from.source];
  source.bootstrap_s = std::max(source.bootstrap_s, of.number<double>("total"));
  if (source.instance != kNoIndex) book.instances[source.instance].reach(InitStage::bootstrap);
}

void note_connection(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  LogSource& source = book.sources[from.source];
  const std::string via = transport_name(of);
  const int src = of.number("src"), dst = of.number("dst");
  book.note("transport", via);
  // Before any other line of the rank: both ends name the sender first.
  const int rank = of.text("receives").empty() ? src : dst;
  int& hint = source.hint_rank;
  if (source.instance == kNoIndex && source.hint_nranks < 0) hint = hint == -1 || hint == rank ? rank : -2;
  if (source.instance != kNoIndex) {
    book.instances[source.instance].reach(InitStage::connect);
    book.instances[source.instance].last_connection = fmt::format("{} -> {} via {}", src, dst, via);
  }
  if (source.connections.size() < JobBook::kMaxConnections) ++source.connections[{source.instance, src, dst, via}];
}

void note_connected(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  const std::string_view what = of.text("what");
  const std::string_view kind = what.starts_with("NVLS") ? "nvls" : what.ends_with("rings") ? "rings" : "trees";
  const std::uint32_t instance = book.sources[from.source].instance;
  if (instance != kNoIndex) book.instances[instance].reach(kind == "rings" ? InitStage::rings : InitStage::trees);
  book.note("connected", kind);
  if (kind == "nvls") book.note("nvls", "on");
  book.note("ring_pxn", of.text("pxn"));
  book.note("ring_gdr", of.text("gdr"));
}

void note_return(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  LogSource& source = book.sources[from.source];
  ++source.failures;
  if (source.instance == kNoIndex || !book.instances[source.instance].completed) ++source.tries;
  if (book.return_codes.size() < JobBook::kMaxFacts)
    ++book.return_codes[{of.number("code"), std::string(of.text("thread").substr(0, 64))}];
}

// Versions, settings, devices and choices: facts for people and for the comparison of ranks.

void note_version(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  const std::string_view nccl = of.text("nccl"), cuda = of.text("cuda");
  Process& process = book.processes[from.process];
  if (!nccl.empty()) process.nccl = nccl.substr(0, 64);
  if (!cuda.empty()) process.cuda = cuda.substr(0, 64);
  book.note("nccl_version", nccl);
  book.note("cuda_version", cuda);
}

void note_setting(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  Process& process = book.processes[from.process];
  std::string_view value = without_blanks(of.text("value"));
  if (value.ends_with('.')) value.remove_suffix(1);
  std::string name(of.text("name").substr(0, 100));
  book.note("env." + name, value.empty() ? "(empty)" : value);
  if (process.env.contains(name) || process.env.size() < JobBook::kMaxSettings)
    process.env[std::move(name)] = std::string(value.substr(0, 300));
}

void note_network(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  book.sources[from.source].forgive_tries();
  book.processes[from.process].network = without_blanks(of.text("network")).substr(0, 64);
  book.note("network", book.processes[from.process].network);
}

void note_devices(JobBook& book, const LineShape& of, const JobBook::Place& from) {
  Process& process = book.processes[from.process];
  const std::string_view network = of.text("network").empty() ? "Bootstrap" : of.text("network");
  const std::string_view list = of.text("devices"), oob = of.text("oob");
  if (network == "Socket") book.sources[from.source].forgive_tries();
  for (const std::string_view part : {oob, network == "IB" ? std::string_view() : list}) {
    for (const std::string& address : addresses_in(part)) process.addresses.insert(address);
  }
  if (network == "OFI") {
    book.note("provider", list.substr(0, list.find(' ')));
    constexpr std::string_view kFound = "(found ";
    if (const std::size_t at = list.find(kFound); at != kNotFound)
      book.note("nics", LogScan{list.substr(at + kFound.size())}.word());
    return;
  }
  if (network == "IB" && without_blanks(list).empty()) book.note("ib_device", "none");
  if (!of.text("order").empty()) book.note("relaxed_ordering", "on");
  if (process.devices.size() < JobBook::kMaxSettings)
    process.devices[std::string(network.substr(0, 64))] = without_blanks(list).substr(0, 4096);
  for (const NetDevice& device : net_devices(list)) {
    book.note(network == "IB" ? "hca" : "interface", device.name);
    if (!device.link.empty()) book.note("link_layer", device.link);
  }
  for (const NetDevice& device : net_devices(oob))
    book.note(network == "Bootstrap" ? "bootstrap_interface" : "oob_interface", device.name);
}

void note_tuning(JobBook& book, const LineShape& of, const JobBook::Place&) {
  static constexpr std::string_view kAlgos[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE"};
  static constexpr std::string_view kProtos[] = {"LL", "LL128", "SIMPLE"};
  // As printed: a word, or a number up to 2.23.
  const auto word = [](std::string_view written, std::span<const std::string_view> names) {
    if (written.size() == 1 && written[0] >= '0' && static_cast<std::size_t>(written[0] - '0') < names.size())
      return std::string(names[static_cast<std::size_t>(written[0] - '0')]);
    std::string upper(written.substr(0, 32));
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return upper;
  };
  const std::string algo = word(of.text("algo"), kAlgos);
  const std::string proto = word(of.text("proto"), kProtos);
  book.note("tuning_algo", algo);
  book.note("tuning_proto", proto);
  if (book.tuning.size() >= JobBook::kMaxFacts) return;
  const auto nbytes = std::max<std::int64_t>(0, of.number<std::int64_t>("bytes"));
  const int width = std::bit_width(static_cast<std::uint64_t>(nbytes));
  ++book.tuning[{std::string(of.text("op").substr(0, 64)), width, algo + "/" + proto}];
}

/// By the keys of `messages` in configs/rules/lines/general.yaml.
constexpr std::pair<std::string_view, void (*)(JobBook&, const LineShape&, const JobBook::Place&)> kReaders[] = {
    {"init", note_init},
    {"version", note_version},
    {"connection", note_connection},
    {"connected", note_connected},
    {"comm-shape", note_shape},
    {"comm-end", note_end},
    {"bootstrap-timings", note_bootstrap},
    {"tuning", note_tuning},
    {"setting", note_setting},
    {"network", note_network},
    {"devices", note_devices},
    {"return-code", note_return}};

}  // namespace

void JobBook::ingest(const CollCall& call, const Place& from) {
  CommInstance& instance = instances[find_instance(from.process, from.source, call.comm)];
  instance.used = true;
  if (instance.nranks < 0) instance.nranks = call.nranks;
  Process& process = processes[instance.process];
  const std::uint32_t when = process.calls++;
  LogSource& source = sources[instance.source];
  source.last_call_file = from.file;
  source.last_call_line = from.line;
  instance.op_counts.see(call.op_count);
  if (call.op == "Send" || call.op == "Recv") {
    ++(call.op == "Send" ? instance.sends : instance.receives);
    return;
  }
  Call kept{.count = call.count, .op_count = static_cast<std::uint32_t>(call.op_count), .when = when};
  kept.op = words.id(call.op);
  kept.dtype = words.id(call.dtype);
  // A user's own reduction is a handle: its number may differ from rank to rank.
  const bool handle = call.redop.size() > 1 && call.redop[0] >= '0' && call.redop[0] <= '9';
  kept.redop = words.id(!mentions(call.op, "Reduce") ? "" : handle ? "user" : call.redop);
  kept.root = has_root(call.op) ? static_cast<std::int32_t>(call.root) : -1;
  instance.calls.add(kept);
}

void JobBook::ingest(const LineShape& of, const Place& from) {
  for (const auto& [key, read] : kReaders) {
    if (key == of.key) read(*this, of, from);
  }
}

void JobBook::ingest(const InitTimings& timings, const Place& from) {
  LogSource& source = sources[from.source];
  if (source.hint_nranks < 0) {
    source.hint_rank = timings.rank;
    source.hint_nranks = timings.nranks;
  }
  if (timings.total > source.timings.total) source.timings = timings;
}

void JobBook::count_warning(const Held& held) {
  note_absent_network(held.text, held.from.process);
  const LineRule& rule = classify_warning(held.file, held.text);
  WarningRecord record{.rule = &rule,
                       .example = held.text.substr(0, 500),
                       .where = held.file + (held.function.empty() ? "" : " (" + held.function + ")"),
                       .timestamp = held.timestamp,
                       .source = held.from.source,
                       .file = held.from.file,
                       .line = held.from.line};
  LineFacts named = rule.id.empty() ? LineFacts() : builtin_line_rules().captures(rule, held.text);
  if (rule.kind == RuleKind::hardware) named.merge(builtin_line_rules().facts_in("devices", held.text));
  if (named.contains("device")) record.devices = {named["device"]};
  count(std::move(record));
  if (rule.kind == RuleKind::harmless) return;
  ++sources[held.from.source].warnings;
  if (rule.kind == RuleKind::victim) ++sources[held.from.source].victim_warnings;
  note_peers(rule.kind, held.text);
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
  using enum RuleKind;
  if (kind != victim && kind != unreachable && kind != refused && kind != hardware) return;
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

constexpr std::uint64_t kReachOfPlace = 12;

/// "  Local host: node7", some lines after a failure that names nobody.
void JobBook::note_place(std::string_view text, std::size_t file, std::uint64_t number) {
  if (file != nameless_.file || number - nameless_.line > kReachOfPlace) return;
  const std::string host = builtin_line_rules().facts_in("places", text)["host"];
  if (host.empty()) return;
  if (help_.lines > 0) help_.host = host;
  for (WarningRecord& record : warnings) {
    if (record.file == file && record.line == nameless_.line) record.hosts.emplace(host);
  }
  for (std::vector<ProgramNote>* notes : {&program, &help_.held}) {
    for (ProgramNote& note : *notes) {
      if (note.file == file && note.line == nameless_.line) note.host = host;
    }
  }
  nameless_ = {};
}

void JobBook::note_help(std::string_view line, std::size_t file, std::uint64_t number) {
  constexpr std::size_t kDashes = 74, kMostLines = 40;
  const bool dashes = line.size() == kDashes && line.find_first_not_of('-') == kNotFound;
  const bool closes = dashes && !help_.text.empty();
  if (closes || (help_.lines > 0 && (file != help_.file || help_.lines > kMostLines))) end_help();
  if (dashes) {
    if (!closes) help_ = {.lines = 1, .file = file, .line = number + 1, .text = {}, .host = {}, .held = {}};
  } else if (help_.lines > 0) {
    ++help_.lines;
    help_.text.append(line).push_back(' ');
  }
}

void JobBook::end_help() {
  Help help = std::exchange(help_, {});
  if (!help.decided && !builtin_line_rules().matches(help.text, RuleWhere::help).empty()) {
    note_program(help.text, help.file, help.line, true);
    return;
  }
  if (help.decided || help.held.empty()) return;
  help.held.front().text = help.text.substr(0, 500);
  count(std::move(help.held.front()));
}

void JobBook::note_program(std::string_view text, std::size_t file, std::uint64_t number, bool help) {
  if (opens_error(text)) {
    error_line_ = number;
    error_file_ = file;
    return;
  }
  if (mentions(text, "[repeated ") && mentions(text, " across cluster]"))
    note("ray_dedup", "lines of other ranks left out");
  const bool in_error = error_line_ > 0 && number <= error_line_ + 3 && file == error_file_;
  const auto follows = [&](std::string_view id) {
    const auto head = heads_.find(id);
    return head != heads_.end() && head->second.file == file && number - head->second.line <= kReachOfRule;
  };
  LineFacts given = builtin_line_rules().facts_in("stores", text.substr(0, 4096));
  if (!given.empty()) stores_[file] = given["host"];
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
    if (event.what == ProgramEvent::What::traceback || text.ends_with("Traceback (most recent call last):") || mpich) {
      const int rank = event.ranks.empty() ? writer.rank : event.ranks.front();
      if (rank >= 0 || !follows("traceback")) traced_rank_ = rank;
      bare_trace_ = mpich || writer.rank < 0;
      heads_["traceback"] = {kNoIndex, kNoIndex, file, number};
    } else if (bare_trace_ && traced_rank_ >= 0 && event.ranks.empty() && follows("traceback") &&
               (event.rule == nullptr || event.rule->blame != RuleBlame::nobody)) {
      event.ranks = {traced_rank_};
    }
    event.time = builtin_line_rules().facts_in("times", text.substr(0, 200))["time"];
    const bool listed = event.what == ProgramEvent::What::ended || event.what == ProgramEvent::What::stopped;
    if (listed && event.name.empty() && event.ranks.empty() && event.host.empty()) {
      event.ranks = elastic_.ranks;
      event.host = elastic_.host;
      event.name = elastic_.name;
      if (event.time.empty()) event.time = elastic_.time;
      if (event.pid < 0) event.pid = elastic_.pid;
    }
    const bool blames_nobody = event.rule != nullptr && event.rule->blame == RuleBlame::nobody;
    // A mere word of failure after a line that says more is of the same.
    const bool says_more =
        event.rule != nullptr && (!event.rule->means.empty() || event.what == ProgramEvent::What::host_lost);
    const bool harmless = event.rule != nullptr && event.rule->kind == RuleKind::harmless;
    if (!harmless && event.ranks.empty() && event.host.empty() && !blames_nobody &&
        (says_more || nameless_.line == 0 || file != nameless_.file || number - nameless_.line > kReachOfPlace))
      nameless_ = {kNoIndex, kNoIndex, file, number};
    if (event.rule != nullptr) heads_[event.rule->id] = {kNoIndex, kNoIndex, file, number};
    const bool described = described_.contains(file);
    const bool of_host =
        event.rule != nullptr &&
        ((described && event.what == ProgramEvent::What::host_lost) ||
         (!blames_nobody &&
          (event.rule->kind == RuleKind::hardware || builtin_line_rules().has("of-hosts", event.rule->program) ||
           (event.what == ProgramEvent::What::ended && (described || mentions(event.text, "(code="))))));
    if (in_error && event.what == ProgramEvent::What::error) event.name = kLastError;
    if (help_.lines > 0 && event.what >= ProgramEvent::What::exception && !event.is_explained()) {
      help_.held.push_back({std::move(event), file, number, 1});
      continue;
    }
    help_.decided = help_.decided || event.rule != nullptr;
    const bool of_pod = event.what >= ProgramEvent::What::ended && event.what <= ProgramEvent::What::error;
    if ((of_host || (of_pod && !blames_nobody)) && event.host.empty() && event.ranks.empty())
      event.host = !writer.pod.empty() ? writer.pod : of_host ? prompted_[file] : shown_[file];
    if (event.rule != nullptr && event.rule->remedy == remedy("store") && event.host.empty())
      event.host = stores_[file];
    const bool own_limit = event.rule != nullptr && event.rule->kind == RuleKind::resource && !blames_nobody;
    if (own_limit && help_.lines > 0 && event.ranks.empty() && event.host.empty()) event.host = help_.host;
    if (event.rule != nullptr && event.rule->program == "counters" && event.device.empty())
      event.device = headed_[file];
    if (event.what == ProgramEvent::What::message) {
      WarningRecord record{.rule = event.rule, .example = event.text, .file = file, .line = number};
      record.timestamp = find_iso_timestamp(text.substr(0, 120)).substr(0, 64);
      record.ranks = {event.ranks.begin(), event.ranks.end()};
      if (!event.host.empty()) record.hosts = {event.host};
      if (!event.device.empty()) record.devices = {event.device};
      count(std::move(record));
      note_peers(event.rule->kind, event.text);
      continue;
    }
    if (event.what == ProgramEvent::What::healthy) {
      note("works", event.rule->means);
      const bool finished = event.rule->id == "job-finished";
      const std::size_t worth = finished ? 4 : 1;  // whatever it met before
      if (finished) finished_file_ = file;
      if (event.rule->where != RuleWhere::start) steps[file].insert(steps[file].end(), worth, number);
      if (builtin_line_rules().has("came-up", event.text))
        came_up.emplace(file, std::pair(number, event.text.substr(0, 5)));
    } else {
      count(ProgramNote{std::move(event), file, number, 1});
    }
  }
}

void JobBook::ingest(const OtherLine& other, const Place& from) {
  note_absent_network(other.text, from.process);
  // Only the last line of a log is cut; any line that follows takes this back.
  sources[from.source].cut = !other.chatter && mentions(other.text, ": opCount");
  for (const auto& [key, value] : builtin_line_rules().facts_in("facts", other.text)) note(key, value);
}

}  // namespace busbar
