#include "driver/diagnose/job_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace busbar {

// What a launcher says when a process or a host is gone. A beginning of the
// prefix that the last lines had is a line that was cut.
void JobBook::take_foreign(std::string_view text) {
  if (last_process_ != kNone && !text.empty() && !processes[last_process_].host.empty()) {
    const std::string prefix = fmt::format("{}:{}:", processes[last_process_].host, processes[last_process_].pid);
    if (text.front() == prefix.front() && (text.starts_with(prefix) || prefix.starts_with(text))) {
      for (const std::uint32_t actor : processes[last_process_].actors) actors[actor].cut = true;
    }
  }
  if (text.size() < 20 || text.size() > 2000) return;
  const char first = text.front();
  if (first != 'm' && first != 'p' && first != 's' && first != 'O' && first != 'P' && first != ' ') return;
  const auto says = [&](std::string_view what) { return text.find(what) != std::string_view::npos; };
  const bool ours = text.starts_with("mpirun") || text.starts_with("prterun") || text.starts_with("srun:") ||
                    text.starts_with("slurmstepd:") || text.starts_with("ORTE") || text.starts_with("PRTE");
  if (!ours) return;
  const bool host_lost = says("lost communication") || says("Node failure") || says("NODE FAILURE");
  if (!host_lost && !says("exited on signal") && !says("Killed") && !says("Segmentation fault") && !says("oom-kill") &&
      !says("OOM"))
    return;
  const auto known =
      std::find_if(launcher.begin(), launcher.end(), [&](const LauncherWord& word) { return word.text == text; });
  if (known != launcher.end()) {
    ++known->times;
  } else if (launcher.size() < kMaxLauncherWords) {
    launcher.push_back({host_lost, std::string(text.substr(0, 300)), 1});
  }
}

}  // namespace busbar
