#include "common/backends/nccl/cuda/nccl_library.h"

#include "common/backends/nccl/nccl_fields.h"
#include "common/base/error.h"
#include "common/machine/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace busbar {
namespace {

constexpr const char* kLibraryName = "libnccl.so.2";

std::string remedy() {
  return fmt::format(
      "install NCCL {} or newer and put its folder in LD_LIBRARY_PATH, or set NCCL_HOME to the folder whose lib holds "
      "{}",
      nccl_version_text(kMinNcclVersion), kLibraryName);
}

/// NCCL_HOME's library if there is one; the build uses the variable too, so a folder without one means nothing.
std::string library_path() {
  const char* home = std::getenv("NCCL_HOME");
  if (home == nullptr || *home == '\0') return kLibraryName;
  for (const char* folder : {"lib", "lib64"}) {
    const std::string path = fmt::format("{}/{}/{}", home, folder, kLibraryName);
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  return kLibraryName;
}

void* open_nccl() {
  if (void* handle = dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  const char* why = dlerror();
  throw_not_possible(
      fmt::format("the NCCL library cannot be loaded ({}): {}", why != nullptr ? why : kLibraryName, remedy()));
}

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = Symbol{handle, name};
  if (function == nullptr) throw_not_possible(fmt::format("the NCCL library found lacks {}: {}", name, remedy()));
}

void find_all(void* handle, NcclLibrary& nccl) {
#define BUSBAR_FIND(name) find(handle, "nccl" #name, nccl.name);
  BUSBAR_NCCL_FUNCTIONS(BUSBAR_FIND)
#undef BUSBAR_FIND
#define BUSBAR_LOOK_UP(name) nccl.name = Symbol{handle, "nccl" #name};
  BUSBAR_NEWER_NCCL_FUNCTIONS(BUSBAR_LOOK_UP)
#undef BUSBAR_LOOK_UP
}

}  // namespace

std::shared_ptr<const NcclLibrary> load_nccl() {
  void* handle = open_nccl();
  auto nccl = std::make_shared<NcclLibrary>();
  find(handle, "ncclGetVersion", nccl->GetVersion);
  if (nccl->GetVersion(&nccl->version) != ncclSuccess)
    throw_not_possible(fmt::format("the NCCL library found does not report its version: {}", remedy()));
  if (nccl->version < kMinNcclVersion) {
    throw_not_possible(
        fmt::format("the NCCL library found is {}, too old: {}", nccl_version_text(nccl->version), remedy()));
  }
  find_all(handle, *nccl);
  return nccl;
}

std::string nccl_problem() {
  try {
    load_nccl();
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

void throw_nccl_error(const NcclLibrary& nccl, ncclResult_t result, const char* call, const char* file, int line) {
  const char* slash = std::strrchr(file, '/');
  // NULL: the last warning of the process; the communicator's own may be gone already.
  const char* last = nccl.GetLastError(nullptr);
  std::string text = fmt::format("NCCL: {} (ncclResult {}) in {} at {}:{}", nccl.GetErrorString(result),
                                 static_cast<int>(result), call, slash != nullptr ? slash + 1 : file, line);
  if (last != nullptr && *last != '\0') text += fmt::format("; NCCL's last warning: {}", last);
  // NCCL checks the arguments and settings of a communicator before it talks to other ranks.
  if (result == ncclInvalidUsage || result == ncclInvalidArgument) throw RefusedError(ExitCode::backend, text);
  throw Error(ExitCode::backend, text);
}

}  // namespace busbar
