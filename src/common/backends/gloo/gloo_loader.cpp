#include "common/backends/gloo/gloo_loader.h"

#include "common/base/error.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace busbar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libbusbar_gloo.so";
constexpr const char* kOrMpi = "or measure host memory over MPI: --backend mpi";

}  // namespace

const GlooModule& load_gloo() {
  std::error_code unknown;
  const fs::path folder = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  const fs::path installed = folder.parent_path() / BUSBAR_INSTALL_LIBDIR;
  for (const fs::path& path : {folder / kFile, installed / kFile}) {
    if (fs::exists(path, unknown)) return load_gloo(path.string());
  }
  throw Error(
      ExitCode::not_possible,
      fmt::format("--backend gloo: there is no {} in {} or {}: install Gloo's headers (Debian: libgloo-dev) and "
                  "build busbar again, {}",
                  kFile, folder.string(), installed.string(), kOrMpi));
}

const GlooModule& load_gloo(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    throw Error(ExitCode::not_possible,
                fmt::format("--backend gloo: {} cannot be loaded ({}): install Gloo (Debian: libgloo0), {}", kFile,
                            why != nullptr ? why : path, kOrMpi));
  }
  const auto* module = static_cast<const GlooModule*>(dlsym(handle, kGlooSymbol));
  if (module == nullptr || module->border != kGlooBorder) {
    throw Error(
        ExitCode::not_possible,
        fmt::format("--backend gloo: {} is of another busbar than this program: install both from one build, {}", path,
                    kOrMpi));
  }
  return *module;
}

}  // namespace busbar
