#pragma once

#include "common/record/host_look.h"

#include <string>
#include <vector>

namespace busbar {

/// The look at the same host that is there already; null: none. If another host has its name, `look` gets its `place`
/// (an address, a file) into its own.
HostLook* known_look(JobLook& looks, HostLook& look, const std::string& place);

/// Removes processes that several looks at one machine saw, as in containers that share its pids: each stays with the
/// host whose network it uses, else with the first.
void drop_seen_twice(JobLook& looks);

/// The names of the jobs that these looks saw, as --job takes them. Hosts name a job alike if a scheduler, a run's id
/// or a master's address does; otherwise its name has the host's. Ranks that ran to different addresses of one job,
/// because a setting is wrong, are one job if no rank is there twice.
std::vector<std::string> job_names(const JobLook& looks);

/// The looks with the processes of one job only. `wanted`: its name or a part of it; empty: the only one. Throws
/// Error(bad_config) that lists the names if several fit, or none does.
JobLook only_job(JobLook looks, const std::string& wanted);

}  // namespace busbar
