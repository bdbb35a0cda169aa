#include "common/mpi/child.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace busbar {
namespace {

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view p) { return name.starts_with(p); });
}

/// What Open MPI's mpirun, PRRTE and Hydra tell their ranks; the user's own OMPI_MCA_... and OMPI_ALLOW_... stay.
bool told_by_launcher(std::string_view name) {
  return starts_with_any(name, {"OMPI_COMM_WORLD_",
                                "OMPI_APP_CTX_",
                                "OMPI_COMMAND",
                                "OMPI_ARGV",
                                "OMPI_FILE_LOCATION",
                                "OMPI_FIRST_RANKS",
                                "OMPI_NUM_APP_CTX",
                                "OMPI_UNIVERSE_SIZE",
                                "OMPI_MCA_ess",
                                "OMPI_MCA_orte_",
                                "OMPI_MCA_pmix",
                                "OMPI_MCA_initial_wdir",
                                "OMPI_MCA_mpi_oversubscribe",
                                "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
                                "PMIX_",
                                "PMI_",
                                "HYDI_",
                                "MPI_LOCALNRANKS",
                                "MPI_LOCALRANKID",
                                "PRTE_LAUNCHED",
                                "PRTE_MCA_prte_ess"});
}

}  // namespace

std::vector<std::string> child_environment(std::span<const char* const> current, bool launched,
                                           const EnvironmentSettings& settings) {
  std::vector<std::string> result;
  for (const std::string_view entry : current) {
    const std::string_view name = entry.substr(0, entry.find('='));
    const bool replaced = std::any_of(settings.begin(), settings.end(), [&](const auto& s) { return s.first == name; });
    if (replaced || (launched && told_by_launcher(name))) continue;
    result.emplace_back(entry);
  }
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const bool later = std::any_of(settings.begin() + static_cast<std::ptrdiff_t>(i) + 1, settings.end(),
                                   [&](const auto& s) { return s.first == settings[i].first; });
    if (!later) result.push_back(settings[i].first + "=" + settings[i].second);
  }
  return result;
}

}  // namespace busbar
