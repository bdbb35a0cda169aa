// What histories do in a build without SQLite: they say so, before anything is measured.
#include "common/base/error.h"
#include "driver/history/history.h"

namespace busbar {
namespace {

[[noreturn]] void refuse() {
  throw_not_possible("this build has no SQLite, which histories need: install its headers and configure again");
}

}  // namespace

History::History(const std::string& /*path*/, Mode /*mode*/, double /*patience_s*/) { refuse(); }
History::~History() = default;
void History::check_room() { refuse(); }
std::int64_t History::add(const HistoryRun& /*run*/) { refuse(); }
std::vector<HistoryRun> History::runs() { refuse(); }
void History::read_cells(std::span<HistoryRun>, std::string_view, const std::function<void(HistoryRun&)>&) { refuse(); }
void History::read_criteria(HistoryRun& /*run*/) { refuse(); }

void check_history(const std::string& /*path*/) { refuse(); }
bool add_to_history(const std::string& /*path*/, const HistoryRun& /*run*/) { refuse(); }

}  // namespace busbar
