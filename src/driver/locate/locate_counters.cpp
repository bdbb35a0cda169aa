#include "driver/locate/locate_counters.h"

#include "common/base/records.h"
#include "common/mpi/collectively.h"
#include "common/mpi/session.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/counters.h"

#include <fmt/format.h>

namespace busbar {

SearchCounters::SearchCounters(const Comm& world)
    : world_(world), reads_(world.split_by_host().rank() == 0), begin_(std::chrono::steady_clock::now()) {
  collectively(world_, "listening to the GPUs' errors", [&] {
    if (reads_) xids_.emplace();
  });
  before_ = read();
}

std::vector<CounterReading> SearchCounters::read() const {
  return collectively_get(world_, "reading the error counters",
                          [&] { return reads_ ? read_all_counters() : std::vector<CounterReading>(); });
}

std::vector<DoctorRow> SearchCounters::moved() const {
  const std::vector<CounterReading> after = read();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
  Rows found =
      collectively_get(world_, "reading the GPUs' errors", [&] { return xids_ ? xid_rows(xids_->heard()) : Rows(); });
  for (DoctorRow& row : moved_counters(before_, after, spent.count())) found.push_back(std::move(row));
  std::string packed;
  for (const DoctorRow& row : found) {
    if (row.outcome < Outcome::warn) continue;
    packed += pack_record({row.check, fmt::format("{} {}", hostname(), row.subject), name(row.outcome), row.value,
                           row.reason, row.remedy});
  }
  std::vector<DoctorRow> rows;
  for (const std::string& of_host : world_.gather(packed)) {
    for (const std::vector<std::string>& fields : unpack_records(of_host)) {
      DoctorRow row;
      row.check = fields.at(0);
      row.subject = fields.at(1);
      row.outcome = fields.at(2) == name(Outcome::fail) ? Outcome::fail : Outcome::warn;
      row.value = fields.at(3);
      row.reason = fields.at(4);
      row.remedy = fields.at(5);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace busbar
