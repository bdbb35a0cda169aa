#include "common/watch/flight_place.h"
#include "common/watch/flight_record.h"

#include <algorithm>
#include <cstdlib>

namespace busbar {
namespace {

using GetVariable = const char* (*)(const char*);

std::string value(GetVariable get, const char* variable) {
  const char* text = get(variable);
  return text != nullptr ? text : "";
}

std::string first_of(GetVariable get, std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    if (std::string text = value(get, variable); !text.empty()) return text;
  }
  return {};
}

/// One launch within its batch job. mpirun's name first: its ranks see the Slurm step of the daemon that started them,
/// which is another one on each host. PMIx's name of ranks that srun started is "slurm.pmix.JOB.STEP".
std::string launch_name(GetVariable get) {
  if (std::string name = first_of(get, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}); !name.empty()) return name;
  const std::string step = value(get, "SLURM_STEP_ID");
  // Slurm's reserved steps from 0xfffffff0 on are shells (batch, extern, interactive), in which many launches may run.
  const bool shell = step.size() > 9 && step >= "4294967280";
  return value(get, "SLURM_PROCID").empty() || shell ? "" : step;
}

/// Whether `part` stands between the dots of the name.
bool has_component(std::string_view name, std::string_view part) {
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    if (name.substr(at, dot - at) == part) return true;
    at = dot + 1;
  }
  return false;
}

}  // namespace

std::string environment_jobid(GetVariable get) {
  if (get == nullptr) get = [](const char* variable) -> const char* { return std::getenv(variable); };
  const std::string job = first_of(get, {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"});
  const std::string launch = launch_name(get);
  constexpr std::size_t kLength = 100;
  if (launch.empty()) {
    // In Flux a launch is a job of its own.
    return value(get, "FLUX_TASK_RANK").empty() ? "" : fit_for_file_name(value(get, "FLUX_JOB_ID"), kLength);
  }
  const bool says_job = job.empty() || has_component(launch, job);
  return fit_for_file_name(says_job ? launch : job + "." + launch, kLength);
}

}  // namespace busbar
