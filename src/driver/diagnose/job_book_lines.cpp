#include "driver/diagnose/job_book.h"
#include "driver/diagnose/log_line.h"

#include <string>

namespace busbar {

static constexpr std::uint64_t kTornReach = 3;  // lines after which the rest of a torn one comes, or never

// "node1:7:7 [0] NCCL INFO node2:8:8 [1] NCCL INFO ...": what the first was about to say comes without a prefix.
void JobBook::remember_torn(std::string_view prefix, std::size_t file, std::uint64_t number) {
  const LogLine beginning = parse_log_line(prefix);
  if (beginning.origin.pid < 0) return;
  torn_.process = find_process(beginning.origin, file, number);
  torn_.actor = find_actor(torn_.process, beginning.origin.dev);
  torn_.file = file;
  torn_.line = number;
}

bool JobBook::add_rest_of_torn(std::string_view text, std::size_t file, std::uint64_t number) {
  if (torn_.file != file || number - torn_.line > kTornReach || text.size() > 4096) return false;
  const std::string whole = "NCCL INFO " + std::string(text);
  const LogLine line = parse_log_line(whole);
  if (std::holds_alternative<OtherLine>(line.fact)) return false;
  add(line, file, number);
  return true;
}

void JobBook::add(const LogLine& line, std::size_t file, std::uint64_t number) {
  From from{line.origin, file, number, kNone, kNone};
  if (const auto* other = std::get_if<OtherLine>(&line.fact); other != nullptr && !other->nccl) {
    if (torn_.process == kNone || !add_rest_of_torn(other->text, file, number)) take(*other, from);
    return;
  }
  ++understood;
  if (const auto* work = std::get_if<TorchWork>(&line.fact)) {
    take(*work, from);
    return;
  }
  if (const auto* event = std::get_if<KernelEvent>(&line.fact)) {
    take(*event, from);
    return;
  }
  ++nccl_lines;
  if (!line.origin.torn.empty()) remember_torn(line.origin.torn, file, number);
  const bool nameless = line.origin.host.empty() && line.origin.pid < 0 && line.origin.dev < 0;
  if (nameless && torn_.process != kNone && torn_.file == file && number - torn_.line <= kTornReach) {
    from.process = torn_.process;
    from.actor = torn_.actor;
    torn_.process = kNone;
  } else {
    from.process = find_process(line.origin, file, number);
    from.actor = find_actor(from.process, line.origin.dev);
  }
  actors[from.actor].cut = false;
  ++processes[from.process].lines;
  std::visit([&](const auto& fact) { take(fact, from); }, line.fact);
}

}  // namespace busbar
