#pragma once

// Recorded machines (test/doctor/), healthy as they stand; a test makes one sick with a few lines more.

#include "common/machine/probe.h"
#include "driver/doctor/checks.h"
#include "golden.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace busbar {

inline std::string recorded_text(const std::string& name) {
  return read_text(std::filesystem::path(__FILE__).parent_path().parent_path() / "doctor" / (name + ".txt"));
}

inline Rows rows_of(const std::string& machine, const std::string& more = "") {
  const Probe probe = probe_recorded(recorded_text(machine) + more, machine);
  Rows rows = check_node(probe);
  for (DoctorRow& row : check_process(probe)) rows.push_back(std::move(row));
  return rows;
}

/// The worst row of a check; `subject`: of that one only. Fails the test where there is none.
inline DoctorRow row_of(const Rows& rows, const std::string& check, const std::string& subject = "*") {
  const DoctorRow* worst = nullptr;
  for (const DoctorRow& row : rows) {
    const bool fits = row.check == check && (subject == "*" || row.subject == subject);
    if (fits && (worst == nullptr || row.outcome > worst->outcome)) worst = &row;
  }
  INFO("no row " << check << " " << subject);
  REQUIRE(worst != nullptr);
  return *worst;
}

// Rows of nodes that no probe shows.
inline DoctorRow bad_row(Outcome outcome, const char* check, const std::string& subject, const std::string& value,
                         const char* reason, const char* remedy) {
  return {check, subject, outcome, value, reason, remedy};
}
inline DoctorRow ok_row(const char* check, const char* subject, const char* value) {
  return bad_row(Outcome::pass, check, subject, value, "", "");
}
inline DoctorRow equal_row(const char* check, const char* subject, const char* value, Outcome worst,
                           const char* remedy) {
  return {check, subject, Outcome::pass, value, "", remedy, true, worst};
}

inline std::vector<std::string> not_ok(const Rows& rows) {
  std::vector<std::string> found;
  for (const DoctorRow& row : rows) {
    if (row.outcome > Outcome::pass) found.push_back(row.check + " " + row.subject + ": " + row.reason);
  }
  return found;
}

}  // namespace busbar
