#include "common/base/units.h"
#include "common/machine/machine_facts.h"
#include "driver/doctor/host_parts.h"
#include "driver/doctor/make_row.h"

#include <fmt/format.h>

#include <charconv>

namespace busbar {
namespace {

/// linux/capability.h: whoever has it may lock any amount.
constexpr int kCapIpcLock = 14;

bool may_lock_all(const Probe& probe) {
  const std::string status = probe.read("/proc/self/status").value_or("");
  const auto field = field_of(status, "CapEff");
  std::uint64_t bits = 0;
  if (field) std::from_chars(field->data(), field->data() + field->size(), bits, 16);
  return ((bits >> kCapIpcLock) & 1) != 0;
}

DoctorRow limit_row(const std::string& check, std::string value) {
  return equal_row(check, "", std::move(value), Outcome::warn,
                   "give the ranks the same limit on every node (the launcher's daemon hands its own on)");
}

void check_memlock(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.memlock";
  const auto found = probe.limits.find("memlock");
  if (found == probe.limits.end()) return rows.push_back(skip_row(kCheck, "", "getrlimit does not tell"));
  if (!found->second) return rows.push_back(limit_row(kCheck, "unlimited"));
  const std::uint64_t nbytes = *found->second;
  DoctorRow row = limit_row(kCheck, format_bytes(nbytes));
  if (may_lock_all(probe)) {
    row.value += " (not applied: CAP_IPC_LOCK)";
  } else if (has_rdma(probe) && nbytes < 16 * kGiB) {
    // AWS asks for 16 GiB; below 64 MiB not even the queues of one rank's peers fit.
    row.outcome = nbytes < 64 * kMiB ? Outcome::fail : Outcome::warn;
    row.reason = "RDMA registers (locks) its buffers, and the limit of locked memory is low";
    row.remedy =
        "memlock unlimited in /etc/security/limits.d for ssh, LimitMEMLOCK=infinity for slurmd, --ulimit memlock=-1 "
        "for a container; then log in or restart the daemon again";
  }
  rows.push_back(std::move(row));
}

void check_open_files(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.nofile";
  const auto found = probe.limits.find("nofile");
  if (found == probe.limits.end()) return rows.push_back(skip_row(kCheck, "", "getrlimit does not tell"));
  if (!found->second) return rows.push_back(limit_row(kCheck, "unlimited"));
  const std::uint64_t count = *found->second;
  DoctorRow row = limit_row(kCheck, std::to_string(count));
  // A job of 144 ranks with GIN needs more than 32768; a laptop's 1024 is enough for what it can run.
  const bool large = has_gpus(probe) || has_rdma(probe);
  if (count < 1024 || (large && count < 32768)) {
    row.outcome = count < 1024 && large ? Outcome::fail : Outcome::warn;
    row.reason = "few open files allowed: each connection between ranks is one or more";
    row.remedy = "nofile 1048576 in /etc/security/limits.d, LimitNOFILE for slurmd, --ulimit nofile for a container";
  }
  rows.push_back(std::move(row));
}

void check_stack(const Probe& probe, Rows& rows) {
  constexpr const char* kCheck = "host.stack";
  const auto found = probe.limits.find("stack");
  if (found == probe.limits.end()) return rows.push_back(skip_row(kCheck, "", "getrlimit does not tell"));
  DoctorRow row = limit_row(kCheck, found->second ? format_bytes(*found->second) : "unlimited");
  if (!found->second) {
    // NCCL's documentation, "Troubleshooting": threads then get stacks of a default that is too small.
    row.outcome = Outcome::warn;
    row.reason = "an unlimited stack harms NCCL's threads";
    row.remedy = "ulimit -s 8192 before the ranks start";
  }
  rows.push_back(std::move(row));
}

}  // namespace

void check_limits(const Probe& probe, Rows& rows) {
  check_memlock(probe, rows);
  check_open_files(probe, rows);
  check_stack(probe, rows);
}

}  // namespace busbar
