#pragma once

#include "common/record/node_report.h"

#include <string>
#include <utility>

namespace busbar {

inline DoctorRow ok_row(std::string check, std::string subject, std::string value) {
  DoctorRow row;
  row.check = std::move(check);
  row.subject = std::move(subject);
  row.value = std::move(value);
  return row;
}

/// Not OK. Numbers that differ from node to node belong into the value, so that the same finding on many nodes has the
/// same reason and is printed once.
inline DoctorRow bad_row(Outcome outcome, std::string check, std::string subject, std::string value, std::string reason,
                         std::string remedy) {
  DoctorRow row = ok_row(std::move(check), std::move(subject), std::move(value));
  row.outcome = outcome;
  row.reason = std::move(reason);
  row.remedy = std::move(remedy);
  return row;
}

inline DoctorRow skip_row(std::string check, std::string subject, std::string reason) {
  return bad_row(Outcome::skip, std::move(check), std::move(subject), {}, std::move(reason), {});
}

/// A value that must be the same on all nodes. `remedy`: what to do where it is not.
inline DoctorRow equal_row(std::string check, std::string subject, std::string value, Outcome if_differs,
                           std::string remedy) {
  DoctorRow row = ok_row(std::move(check), std::move(subject), std::move(value));
  row.must_agree = true;
  row.if_differs = if_differs;
  row.remedy = std::move(remedy);
  return row;
}

}  // namespace busbar
