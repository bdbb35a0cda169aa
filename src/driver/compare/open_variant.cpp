#include "common/backends/gloo/gloo_backend.h"
#include "common/backends/mpi/mpi_backend.h"
#include "common/backends/mpi/mpich_algorithms.h"
#include "common/backends/mpi/ompi_tuned.h"
#include "common/backends/open_backend.h"
#include "common/processes/collectively.h"
#include "driver/compare/nccl_choices.h"
#include "driver/compare/rounds.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace busbar {
namespace {

/// Environment variables set while it lives.
class ScopedEnvironment {
 public:
  ScopedEnvironment() = default;
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }

  void set(const std::string& name, const std::string& value) {
    const char* const old = std::getenv(name.c_str());
    before_.emplace_back(name, old != nullptr ? std::optional<std::string>(old) : std::nullopt);
    ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

bool is_of_mpi(const Variant& variant) {
  return !variant.settings.empty() && owner_of_setting(variant.settings.front().first) == &kMpiTraits;
}

void set_nccl_environment(ScopedEnvironment& environment, const Variant& variant, const Collective& collective) {
  for (const auto& [name, value] : variant.settings) {
    if (!name.starts_with("NCCL_")) continue;
    const bool per_function = name == "NCCL_ALGO" || name == "NCCL_PROTO";
    environment.set(name, per_function ? for_collective(collective, value) : value);
  }
}

NcclFields nccl_fields(const Variant& variant) {
  NcclFields fields;
  const auto set = [&](std::string_view field, const std::string* value) {
    if (value != nullptr) fields.numbers[std::string(field)] = std::stoi(*value);
  };
  for (const NcclField& field : kNcclFields) set(field.name, setting(variant, fmt::format("nccl.{}", field.name)));
  for (const char* field : {"minCTAs", "maxCTAs"}) set(field, setting(variant, "nccl.ctas"));
  if (const std::string* name = setting(variant, "nccl.netName")) fields.net_name = *name;
  return fields;
}

/// Nothing but the one MPI_Comm_dup may happen while the settings are in force: other communicators that are made
/// meanwhile, by a split for instance, would be forced to algorithms that fail on them.
std::unique_ptr<Backend> open_mpi(const Variant& variant, const Collective& collective, const Config& config,
                                  const Comm& world, const Comm& group) {
  const int ranks_on_host = world.split_by_host().size();
  if (const std::string* algorithm = setting(variant, kMpichAlgorithm)) {
    auto request = collectively_get(world, "asking for MPICH's algorithm",
                                    [&] { return std::optional<MpichRequest>(std::in_place, collective, *algorithm); });
    return make_mpi_backend(group, ranks_on_host, std::move(request), config.nonblocking);
  }
  std::optional<TunedSettings> tuned;
  collectively(world, "setting Open MPI's variables",
               [&] { tuned.emplace(collective, variant.settings, group.size()); });
  return make_mpi_backend(group, ranks_on_host, std::nullopt, config.nonblocking);
}

std::unique_ptr<Backend> open_nccl(const Variant& variant, const Collective& collective, const Config& config,
                                   const Comm& world, const Comm& group) {
  ScopedEnvironment environment;
  set_nccl_environment(environment, variant, collective);
  Config own = config;
  if (const std::string* value = setting(variant, kDeviceKernel)) own.device_implementation = std::stoi(*value);
  std::unique_ptr<Backend> backend;
  std::string refusal;
  try {
    backend = open_backend(own, world, group, nccl_fields(variant), &collective).backend;
  } catch (const RefusedError& e) {  // any other failure of the set-up may be one rank's alone
    refusal = e.what();
  }
  collectively(world, "opening the variant's communicator", [&] {
    if (!refusal.empty()) throw Error(ExitCode::backend, refusal);
  });
  return backend;
}

}  // namespace

OpenedVariant open_variant(const Variant& variant, const Collective& collective, const Config& config,
                           const Comm& world, const Comm& group) {
  OpenedVariant opened;
  try {
    if (const auto* gloo = setting(variant, kGlooAlgorithm)) return {open_gloo(config, world, group, *gloo), {}};
    opened.backend = is_of_mpi(variant) ? open_mpi(variant, collective, config, world, group)
                                        : open_nccl(variant, collective, config, world, group);
  } catch (const AgreedError& e) {
    opened.why_not = e.what();
  }
  return opened;
}

}  // namespace busbar
