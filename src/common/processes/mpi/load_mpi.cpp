#include "common/processes/mpi/mpi_session.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

namespace busbar {
namespace {

namespace fs = std::filesystem;

struct Loaded {
  const MpiModule* module = nullptr;
  std::string why_not;
};

Loaded load_from(const fs::path& file) {
  // Global, because plugins of some MPIs do not name the library whose functions they call.
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return {nullptr, fmt::format("MPI cannot be loaded ({})", why != nullptr ? why : file.string())};
  }
  const auto* module = static_cast<const MpiModule*>(dlsym(handle, kMpiSymbol));
  if (module != nullptr && module->border == kMpiBorder) return {module, {}};
  return {nullptr, fmt::format("{} is from another build than this program", file.string())};
}

/// Next to the program, one folder above it (tests), or where it is installed.
Loaded load() {
  constexpr const char* kFile = "libbusbar_mpi.so";
  std::error_code unknown;
  const fs::path folder = fs::read_symlink("/proc/self/exe", unknown).parent_path(), above = folder.parent_path();
  for (const fs::path& path : {folder / kFile, above / BUSBAR_INSTALL_LIBDIR / kFile, above / kFile})
    if (fs::exists(path, unknown)) return load_from(path);
  return {nullptr, fmt::format("this busbar was built without MPI (no {} next to it or in lib)", kFile)};
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

const MpiModule& mpi_module() {
  if (loaded().module == nullptr) throw_not_possible(loaded().why_not);
  return *loaded().module;
}

std::string why_no_mpi() { return loaded().why_not; }

std::unique_ptr<ProcessGroup> start_mpi(int* argc, char*** argv, MpiThreads threads) {
  return mpi_module().start(argc, argv, threads);
}

void finish_mpi() { mpi_module().finish(); }

MpiThreads granted_mpi_threads() { return mpi_module().granted_threads(); }

std::string mpi_library_version() { return mpi_module().library_version(); }

}  // namespace busbar
