#include "common/backends/gloo/gloo_backend.h"
#include "common/backends/host_memory_backend.h"
#include "common/backends/open_backend.h"
#include "common/backends/transfers.h"
#include "common/base/error.h"
#include "common/base/text.h"
#include "common/processes/comm.h"
#include "common/processes/mpi/mpi_session.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace busbar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libbusbar_gloo.so";
std::string_view or_mpi() { return has_mpi() ? ", or measure host memory over MPI: mpirun and --backend mpi" : ""; }

const GlooModule& checked_and_loaded(const Config& config, const Comm& world) {
  check_host_options(world, config, kGlooTraits);
  if (config.nonblocking) {
    throw AgreedError(
        ExitCode::not_possible,
        "--nonblocking calls MPI's nonblocking functions, and Gloo has none: leave it out, or use --backend mpi");
  }
  return *collectively_get(world, "opening Gloo", [] { return &load_gloo(); });
}

OpenedBackend open_by_request(const OpenRequest& request) {
  const GlooModule& gloo = checked_and_loaded(request.config, request.world);
  OpenedBackend opened;
  opened.backend = make_gloo_backend(gloo, request.world, request.group, request.host.size());
  if (request.collective == &kReduceScatter) {
    opened.remarks.emplace_back(
        "Gloo's reduce_scatter overwrites its input: out of place, the time includes a copy of the message");
  }
  return opened;
}

}  // namespace

const GlooModule& load_gloo() {
  std::error_code unknown;
  const fs::path folder = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  const fs::path installed = folder.parent_path() / BUSBAR_INSTALL_LIBDIR;
  for (const fs::path& path : {folder / kFile, installed / kFile})
    if (fs::exists(path, unknown)) return load_gloo(path.string());
  throw_not_possible(
      fmt::format("--backend gloo: there is no {} in {} or {}: install Gloo's headers (Debian: libgloo-dev) and "
                  "build busbar again{}",
                  kFile, folder.string(), installed.string(), or_mpi()));
}

const GlooModule& load_gloo(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    throw_not_possible(fmt::format("--backend gloo: {} cannot be loaded ({}): install Gloo (Debian: libgloo0){}", kFile,
                                   why != nullptr ? why : path, or_mpi()));
  }
  const auto* module = static_cast<const GlooModule*>(dlsym(handle, kGlooSymbol));
  if (module == nullptr || module->border != kGlooBorder) {
    throw_not_possible(fmt::format(
        "--backend gloo: {} is from another build than this program: install both from one build{}", path, or_mpi()));
  }
  return *module;
}

const BackendEntry kGlooEntry{.open = open_by_request};

std::unique_ptr<Backend> open_gloo(const Config& config, const Comm& world, const Comm& group,
                                   std::string_view algorithm) {
  const GlooModule& gloo = checked_and_loaded(config, world);
  return make_gloo_backend(gloo, world, group, world.split_by_host().size(), find_gloo_algorithm(algorithm));
}

GlooAlgorithm find_gloo_algorithm(std::string_view name) {
  if (name == "ring") return GlooAlgorithm::ring;
  if (name == "bcube") return GlooAlgorithm::bcube;
  throw_bad_config(fmt::format("Gloo has no algorithm {}; choose from: ring bcube all", in_quotes(name)));
}

std::vector<std::string> gloo_algorithms(const Collective& collective, std::string_view value) {
  if (collective.id != CollectiveId::all_reduce)
    throw_bad_config(fmt::format("Gloo has one algorithm for {}; all_reduce has ring and bcube", collective.name));
  if (value == "all") return {"ring", "bcube"};
  find_gloo_algorithm(value);
  return {std::string(value)};
}

std::string_view shown_gloo_algorithm(const Collective& collective, GlooAlgorithm all_reduce) {
  if (only_transfers(collective)) return "-";
  if (collective.id == CollectiveId::reduce_scatter) return "halving_doubling";
  if (collective.id != CollectiveId::all_reduce || all_reduce == GlooAlgorithm::unspecified) return kDefaultAlgorithm;
  return all_reduce == GlooAlgorithm::ring ? "ring" : "bcube";
}

}  // namespace busbar
