#include "driver/diagnose/job_book.h"

#include "common/base/lists.h"
#include "common/base/log_scan.h"
#include "driver/readers/log_line.h"

#include <fmt/format.h>

namespace busbar {
namespace {

std::string process_key(const LogOrigin& origin, std::size_t file) {
  if (!origin.host.empty() && origin.pid >= 0)
    return std::string(origin.host.substr(0, 256)) + '\n' + std::to_string(origin.pid);
  return '\n' + std::to_string(file) + '\n' + decoration_label(origin.decoration);
}

bool has_no_origin(const Process& process) { return process.anonymous && process.decoration.empty(); }

constexpr std::uint64_t kTornReach = 3;  // lines after which the rest of a torn one comes, or never

/// The rule that says more about a kernel's line than its number.
const LineRule* rule_of_kernel(std::string_view text) {
  for (const LineRule* rule : builtin_line_rules().matches(text)) {
    if (rule->program == "kernel") return rule;
  }
  return nullptr;
}

// What continues a line on the next: indented, or the rest of what a terminal or a web page broke.
bool goes_on(std::string_view next, bool anywhere) {
  const std::string_view text = without_blanks(next);
  if (text.empty() || text.size() > 1000 || text.starts_with("File \"")) return false;
  if (text.size() < next.size() && is_blank(next.front())) return true;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits > 0) return anywhere && (digits == text.size() || text[digits] == ',' || text[digits] == ')');
  return anywhere && !is_upper(text.front()) && is_name(text.front());
}

/// How much of a watchdog's line could be read.
int fields_of(const LogLine& line) {
  const auto* work = std::get_if<TorchWork>(&line.fact);
  return work == nullptr ? -1 : static_cast<int>(work->said.parts.size());
}

}  // namespace

void JobBook::count(KernelGroup&& group) {
  const auto key = [](const KernelGroup& one) {
    return std::tie(one.what, one.number, one.device, one.host, one.rule);
  };
  const auto known = std::ranges::find(kernel, key(group), key);
  if (known == kernel.end()) {
    if (kernel.size() < kMaxKernelGroups) kernel.push_back(std::move(group));
  } else if (group.pid < 0 || known->pid != group.pid) {  // a process that is killed for memory has two lines
    known->pid = group.pid;
    ++known->times;
  }
}

void JobBook::count(WarningRecord&& one) {
  constexpr std::size_t kMost = 4096;
  // "error 5" and "error 12" have one shape, and are not one thing.
  const auto key = [](const WarningRecord& record) { return std::tie(record.rule, record.shape); };
  one.shape = warning_shape(one.example);
  const auto record = std::ranges::find(warnings, key(one), key);
  if (record == warnings.end() && warnings.size() == kMaxWarnings) {
    ++warnings_not_kept;
    return;
  }
  if (record == warnings.end()) {
    if (one.source != kNoIndex) one.sources = {one.source};
    one.times = 1;
    warnings.push_back(std::move(one));
    return;
  }
  ++record->times;
  if (!one.timestamp.empty() && one.timestamp < record->timestamp)
    std::tie(record->timestamp, record->example, record->source) = std::tie(one.timestamp, one.example, one.source);
  if (record->ranks.size() < kMost) record->ranks.merge(one.ranks);
  if (record->hosts.size() < kMost) record->hosts.merge(one.hosts);
  if (record->devices.size() < kMost) record->devices.merge(one.devices);
  std::vector<std::uint32_t>& its = record->sources;
  const auto place = std::ranges::lower_bound(its, one.source);
  const bool known = one.source == kNoIndex || (place != its.end() && *place == one.source);
  if (!known && its.size() < kMaxFacts) its.insert(place, one.source);
}

std::vector<const WarningRecord*> causes_first(const std::vector<WarningRecord>& warnings) {
  std::vector<const WarningRecord*> order = mapped(warnings, [](const WarningRecord& record) { return &record; });
  std::ranges::stable_sort(order, {}, [](const WarningRecord* one) {
    return std::tuple(one->rule->kind, one->timestamp.empty(), std::string_view(one->timestamp));
  });
  return order;
}

void JobBook::count(ProgramNote&& note) {
  const auto key = [](const ProgramNote& one) { return std::tie(one.what, one.ranks, one.host, one.number, one.text); };
  const auto known = std::ranges::find(program, key(note), key);
  if (known != program.end()) {
    ++known->times;
  } else if (program.size() < kMaxProgramNotes) {
    program.push_back(std::move(note));
  }
}

std::uint32_t JobBook::find_process(const LogOrigin& origin, std::size_t file, std::uint64_t line) {
  const Process* last = last_process_ == kNoIndex ? nullptr : &processes[last_process_];
  if (last != nullptr && !last->anonymous && last->pid == origin.pid && last->host == origin.host) return last_process_;
  std::string key = process_key(origin, file);
  const auto known = process_of.find(key);
  if (known != process_of.end()) return last_process_ = known->second;
  if (processes.size() == kMaxProcesses) return last_process_ = 0;
  Process& made = processes.emplace_back();
  made.anonymous = origin.host.empty() || origin.pid < 0;
  made.host = origin.host.substr(0, 256);
  made.pid = origin.pid;
  made.decoration = decoration_label(origin.decoration);
  made.file = file;
  made.first_line = line;
  last_process_ = static_cast<std::uint32_t>(processes.size() - 1);
  process_of.emplace(std::move(key), last_process_);
  return last_process_;
}

std::uint32_t JobBook::find_source(std::uint32_t process, int dev) {
  std::vector<std::uint32_t>& its = processes[process].sources;
  for (const std::uint32_t source : its) {
    if (sources[source].dev == dev) return source;
  }
  // A line without a device is of the process's only one.
  if (its.size() == 1 && (dev < 0 || sources[its.front()].dev < 0)) {
    if (dev >= 0) sources[its.front()].dev = dev;
    return its.front();
  }
  if (its.size() >= kMaxSourcesOfProcess) return its.back();
  its.push_back(static_cast<std::uint32_t>(sources.size()));
  LogSource& made = sources.emplace_back();
  made.process = process;
  made.dev = dev;
  return its.back();
}

std::uint32_t JobBook::new_instance(std::uint32_t process, std::uint32_t source, std::uint64_t pointer) {
  Process& owner = processes[process];
  auto made = static_cast<std::uint32_t>(instances.size());
  const bool full = instances.size() >= kMaxInstances || owner.instances.size() >= kMaxInstancesOfProcess;
  if (full) {
    // The oldest that ended makes room; a job that never destroys any loses the newest.
    const auto ended = std::ranges::find_if(owner.instances, [&](std::uint32_t one) { return instances[one].ended; });
    if (ended == owner.instances.end()) return owner.instances.empty() ? 0 : owner.instances.back();
    made = *ended;
    owner.instances.erase(ended);
    instances[made] = {};
  } else {
    instances.emplace_back();
  }
  instances[made].process = process;
  instances[made].source = source;
  instances[made].pointer = pointer;
  owner.instances.push_back(made);
  if (full || last_with_pointer.size() < kMaxInstances) last_with_pointer[pointer] = made;
  return made;
}

std::uint32_t JobBook::live_instance(std::uint32_t process, std::uint64_t pointer) {
  Process& owner = processes[process];
  for (auto one = owner.instances.rbegin(); one != owner.instances.rend(); ++one) {
    if (instances[*one].pointer == pointer) return instances[*one].ended ? kNoIndex : *one;
  }
  // Lines without their prefix, in a log whose other lines have one, belong to the process with the same pointer.
  const auto known = last_with_pointer.find(pointer);
  if (known == last_with_pointer.end() || instances[known->second].ended) return kNoIndex;
  CommInstance& instance = instances[known->second];
  Process& other = processes[instance.process];
  if (instance.process == process || other.file != owner.file) return kNoIndex;
  if (has_no_origin(owner) && !has_no_origin(other)) return known->second;
  if (has_no_origin(owner) || !has_no_origin(other)) return kNoIndex;
  std::erase(other.instances, known->second);
  owner.instances.push_back(known->second);
  instance.process = process;
  instance.source = owner.sources.front();
  return known->second;
}

std::uint32_t JobBook::find_instance(std::uint32_t process, std::uint32_t source, std::uint64_t pointer) {
  const std::uint32_t known = live_instance(process, pointer);
  return known != kNoIndex ? known : new_instance(process, source, pointer);
}

void JobBook::note(std::string_view key, std::string_view value) {
  if (value.empty() || facts.size() >= kMaxFacts) return;
  ++facts[{std::string(key.substr(0, 100)), std::string(value.substr(0, 300))}];
}

// Steps of work are searched for in so many lines of a file, then in one of so many.
constexpr std::uint64_t kSearchedWhole = 10000, kSearchedLater = 7;

// A line that is not NCCL's. One that begins like the prefix of the lines before it is a line of NCCL that was cut.
void JobBook::ingest_foreign(std::string_view text, std::size_t file, std::uint64_t number) {
  const std::string_view host = last_process_ == kNoIndex ? std::string_view() : processes[last_process_].host;
  if (!host.empty() && !text.empty() && text.front() == host.front()) {
    const std::string prefix = fmt::format("{}:{}:", host, processes[last_process_].pid);
    if (text.starts_with(prefix) || prefix.starts_with(text)) {
      for (const std::uint32_t source : processes[last_process_].sources) sources[source].cut = true;
    }
  }
  const std::string_view own = undecorated(text), begin = own.substr(0, 200);
  constexpr std::uint64_t kEnough = 1000;
  if (file != counted_.first) counted_ = {file, 0};
  if (++counted_.second <= kEnough && !own.empty())
    ++(builtin_line_rules().has("kernel-prefixes", text.substr(0, 100)) ? kernel_lines : other_lines);
  note_help(begin, file, number);
  const char first = begin.empty() ? '\0' : begin.front();
  // By the first letter: most lines have another, and there are very many.
  if (first == 'h' || first == 'r' || first == 'R' || first == '=' || begin.starts_with("time ")) note_failed(begin);
  // "hostname: n07" looks like a line that pdsh puts a host in front of.
  for (const std::string_view line : {begin, text.substr(0, 200)}) {
    if (nameless_.line > 0) note_place(line, file, number);
  }
  if (first == '#' || begin.starts_with("size  ") || (table_file_ == file && is_digit(first))) {
    for (const auto& [key, value] : builtin_line_rules().facts_in("benchmarks", begin)) {
      if (key == "table") table_file_ = file;
      if (key == "table") begin_job(file);
      if (key == "rows") steps[file].push_back(number);
      ++understood;
      note(key, value);
    }
  }
  if (has_any(begin.substr(0, 48),
              {"@", "kubectl ", "oc ", "Name: ", "NodeName=", "Exec host: ", "CA '", "hca_id:", " device '"})) {
    LineFacts prompt = builtin_line_rules().facts_in("prompts", begin);
    if (!prompt.empty()) headed_[file] = prompt["device"];
    if (!prompt.empty() && headed_[file].empty())
      std::tie(prompted_[file], shown_[file]) = std::pair(prompt["host"], prompt["pod"]);
    if (begin.starts_with("Name: ") && !prompt.empty()) described_.insert(file);
  }
  // Steps come again and again: late in a long log, a part of the lines is enough.
  const bool searched = number < kSearchedWhole || number % kSearchedLater == 0;
  if (searched && (worked_file_ != file || !program.empty()) &&
      builtin_line_rules().has("steps-done", text.substr(0, 400))) {
    ++understood;
    worked_file_ = file;
    note("works", "steps are done");
    steps[file].push_back(number);
  }
  // nvidia-smi -q: "GPU 0..." and lines that are indented.
  const auto trouble = first == 'G' || (!text.empty() && text.front() == ' ') ? smi_.read(text) : std::nullopt;
  if (trouble) {
    ++understood;
    WarningRecord record{.rule = &classify_warning({}, *trouble), .example = *trouble, .file = file, .line = number};
    if (trouble->starts_with("GPU ")) record.devices = {trouble->substr(0, trouble->find(": "))};
    count(std::move(record));
    return;
  }
  if (first == '{') {
    if (const auto call = read_inspector_line(text)) {
      note_inspector(*call, file, number);
      return;
    }
  }
  const bool in_error = error_line_ > 0 && number == error_line_ + 1 && file == error_file_;
  if (in_error || may_report_failure(own)) note_program(text, file, number);
}

// "node1:7:7 [0] NCCL INFO node2:8:8 [1] NCCL INFO ...": what the first was about to say comes without a prefix.
void JobBook::remember_torn(std::string_view prefix, std::size_t file, std::uint64_t number) {
  const LogLine beginning = parse_log_line(prefix);
  if (beginning.origin.pid < 0) return;
  const std::uint32_t process = find_process(beginning.origin, file, number);
  torn_ = {process, find_source(process, beginning.origin.dev), file, number};
}

bool JobBook::add_rest_of_torn(std::string_view text, std::size_t file, std::uint64_t number) {
  if (torn_.file != file || number - torn_.line > kTornReach || text.size() > 4096) return false;
  const std::string whole = "NCCL INFO " + std::string(text);
  const LogLine line = parse_log_line(whole);
  if (std::holds_alternative<OtherLine>(line.fact) && builtin_line_rules().facts_in("facts", text).empty())
    return false;
  add(line, file, number);
  return true;
}

void JobBook::add(const LogLine& line, std::size_t file, std::uint64_t number) {
  if (held_.lines > 0) {
    if (add_to_held(line, file, number)) return;
    flush();
  }
  Place from{kNoIndex, kNoIndex, file, number};
  if (const auto* other = std::get_if<OtherLine>(&line.fact); other != nullptr && !other->nccl) {
    if (torn_.process == kNoIndex || !add_rest_of_torn(other->text, file, number))
      ingest_foreign(other->text, file, number);
    return;
  }
  ++understood;
  if (const auto* work = std::get_if<TorchWork>(&line.fact)) {
    if (!hold(line, from)) torch.add(*work, file, number);
    return;
  }
  if (const auto* event = std::get_if<KernelEvent>(&line.fact)) {
    const std::string_view host = line.origin.host.empty() ? std::string_view(prompted_[file]) : line.origin.host;
    count(KernelGroup{event->what, std::string(host.substr(0, 256)), std::string(event->device.substr(0, 64)),
                      std::string(event->text.substr(0, 300)), event->number, 1, event->pid,
                      rule_of_kernel(event->text)});
    return;
  }
  // "..., NCCL version 2.21.5" is how PyTorch's errors end.
  if (const LineShape* version = line.shape("version");
      version != nullptr && line.origin.host.empty() && may_report_failure(line.origin.decoration) &&
      !read_program_line(find_writer(line.origin.decoration.substr(0, 4096))).empty()) {
    note("nccl_version", version->text("nccl"));
    note_program(line.origin.decoration, file, number);
    return;
  }
  ++nccl_lines;
  if (!line.origin.torn.empty()) remember_torn(line.origin.torn, file, number);
  const bool nameless = line.origin.host.empty() && line.origin.pid < 0 && line.origin.dev < 0;
  if (nameless && torn_.process != kNoIndex && torn_.file == file && number - torn_.line <= kTornReach) {
    from.process = torn_.process;
    from.source = torn_.source;
    torn_.process = kNoIndex;
  } else {
    from.process = find_process(line.origin, file, number);
    from.source = find_source(from.process, line.origin.dev);
  }
  sources[from.source].cut = false;
  Process& process = processes[from.process];
  ++process.lines;
  process.last_line = process.file == file ? std::max(process.last_line, number) : UINT64_MAX;
  if (std::holds_alternative<Warning>(line.fact) && hold(line, from)) return;
  if (const LineShape* init = line.shape("init"); init != nullptr && line.origin.dev < 0) {
    if (const int dev = init->number("dev"); dev >= 0) from.source = find_source(from.process, dev);
  }
  const auto take = [&](const auto& fact) {
    if constexpr (requires { ingest(fact, from); }) ingest(fact, from);  // the others are done
  };
  std::visit(take, line.fact);
}

bool JobBook::hold(const LogLine& line, const Place& from) {
  held_ = {};
  if (const auto* warning = std::get_if<Warning>(&line.fact)) {
    held_.text = std::string(warning->text.substr(0, 2000));
    held_.file = std::string(warning->file.substr(0, 200));
    held_.function = std::string(warning->function.substr(0, 100));
  } else {
    const TorchWork& work = std::get<TorchWork>(line.fact);
    // A whole one ends with how long it ran.
    if (work.said.key != "timed-out" || !work.said.text("ran").empty() || work.line.empty()) return false;
    held_.torch = true;
    held_.text = std::string(work.line.substr(0, 2000));
  }
  held_.timestamp = std::string(line.origin.timestamp.substr(0, 64));
  held_.from = from;
  held_.lines = 1;
  return true;
}

bool JobBook::add_to_held(const LogLine& line, std::size_t file, std::uint64_t number) {
  constexpr int kMostLines = 5;
  const auto* other = std::get_if<OtherLine>(&line.fact);
  const bool next = file == held_.from.file && number == held_.from.line + static_cast<unsigned>(held_.lines);
  if (!next || held_.lines >= kMostLines || other == nullptr || other->nccl) return false;
  const bool broken = held_.torch || mentions(held_.text, "ompletion");
  if (!goes_on(other->text, broken) && !(held_.torch && mentions(other->text, "WorkNCCL("))) return false;
  ++held_.lines;
  const std::string_view rest = without_blanks(other->text);
  std::string apart = held_.text + ' ' + std::string(rest);
  if (held_.torch) {
    // A terminal breaks words, too, and people who quote them indent both halves.
    std::string glued = held_.text + std::string(rest);
    const int more = fields_of(parse_log_line(glued)) - fields_of(parse_log_line(apart));
    if (more > 0 || (more == 0 && other->text.front() != ' ')) apart = std::move(glued);
  }
  held_.text = std::move(apart);
  return true;
}

void JobBook::flush() {
  end_help();
  if (held_.lines == 0) return;
  const Held held = std::exchange(held_, {});
  if (!held.torch) {
    count_warning(held);
    return;
  }
  const LogLine line = parse_log_line(held.text);
  if (const auto* work = std::get_if<TorchWork>(&line.fact)) torch.add(*work, held.from.file, held.from.line);
}

std::uint8_t Words::id(std::string_view word) {
  const auto known = std::ranges::find(texts_, word);
  if (known != texts_.end()) return static_cast<std::uint8_t>(known - texts_.begin());
  if (texts_.size() > UINT8_MAX) return 0;  // more words than any NCCL has: hostile input
  texts_.emplace_back(word.substr(0, 64));
  return static_cast<std::uint8_t>(texts_.size() - 1);
}

void OpCounts::see(std::uint64_t op_count) {
  if (alike == 0) first = op_count;
  // A launch has at least one line.
  if (alike > 0 && op_count > last + alike) passed_over += op_count - last - alike;
  alike = op_count == last ? alike + 1 : 1;
  last = op_count;
}

void CallStream::add(const Call& call) {
  if (size_ == 0) {
    first_op_count_ = call.op_count;
  } else if (call.op_count != last_op_count_ + 1) {
    consecutive_ = false;
    increasing_ = increasing_ && call.op_count > last_op_count_;
  }
  last_op_count_ = call.op_count;
  if (ring_.size() < kWindow) {
    ring_.push_back(call);
  } else {
    ring_[size_ % kWindow] = call;
  }
  ++size_;
}

}  // namespace busbar
