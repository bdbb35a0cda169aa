#include "common/backends/nccl/device_kernels.h"

#include "common/backends/nccl/nccl_fields.h"

#include <fmt/format.h>

#include <array>

namespace busbar {
namespace {

constexpr int kImplementations = 4;  // -D takes 1 to 4

constexpr std::array<std::string_view, kImplementations> kAllReduceKernels{"LSA", "LSA_VECTOR", "MULTIMEM",
                                                                           "MULTIMEM_VECTOR"};
constexpr std::array<std::string_view, kImplementations> kAlltoallKernels{"LSA", "LSA_VECTOR", "GIN", "GIN_LSA"};

}  // namespace

std::string_view device_kernel_name(CollectiveId collective, int implementation) {
  if (implementation < 1 || implementation > kImplementations) return {};
  const auto at = static_cast<std::size_t>(implementation - 1);
  if (collective == CollectiveId::all_reduce) return kAllReduceKernels[at];
  if (collective == CollectiveId::alltoall) return kAlltoallKernels[at];
  return {};
}

bool needs_multimem(CollectiveId collective, int implementation) {
  return device_kernel_name(collective, implementation).starts_with("MULTIMEM");
}

bool needs_network(CollectiveId collective, int implementation) {
  return device_kernel_name(collective, implementation).starts_with("GIN");
}

std::string why_no_device_kernel(CollectiveId collective, int implementation, DType dtype, std::optional<Op> op) {
  const std::string_view kernel = device_kernel_name(collective, implementation);
  if (kernel.empty()) {
    return fmt::format("-D {} has kernels of all_reduce and alltoall alone: leave it out", implementation);
  }
  if (op && *op != Op::sum) return fmt::format("device API kernels (-D) add, they have no {}", name(*op));
  if (!op) return {};
  if (is_fp8(dtype)) return fmt::format("device API kernels (-D) do not add {}", name(dtype));
  if (needs_multimem(collective, implementation) && size_of(dtype) == 1) {
    return fmt::format("switches (-D {}) do not add {}: take -D 1 or 2", implementation, name(dtype));
  }
  return {};
}

std::string device_header_mismatch(const NcclHeader& of_kernels, const NcclHeader& of_host) {
  if (of_kernels.version == of_host.version && of_kernels.communicator_nbytes == of_host.communicator_nbytes) return {};
  return fmt::format(
      "-D: this build's kernels were compiled with the header of NCCL {} (a communicator of {} bytes) and the rest "
      "with that of {} ({} bytes): take the other nccl.h from the compilers' include paths (CPATH, NVCC_APPEND_FLAGS), "
      "build anew, or leave out -D",
      nccl_version_text(of_kernels.version), of_kernels.communicator_nbytes, nccl_version_text(of_host.version),
      of_host.communicator_nbytes);
}

std::string device_api_mismatch(int header_version, int library_version) {
  // With 2.28.7 and 2.29 it is laid out anew; since then NCCL translates for older headers.
  constexpr std::array kChanges{22807, 22900};
  for (const int change : kChanges) {
    if ((header_version < change) == (library_version < change)) continue;
    return fmt::format(
        "-D needs a library of the same kind as the header that busbar was built with, and between NCCL {} (header) "
        "and {} (library) lies {}, which changed what kernels are told: build with the library's header, or leave out "
        "-D",
        nccl_version_text(header_version), nccl_version_text(library_version), nccl_version_text(change));
  }
  if (header_version >= kChanges.back() && header_version > library_version) {
    return fmt::format(
        "-D needs a library that is no older than the header that busbar was built with, and NCCL {} (library) is "
        "older than {} (header): take a newer library, or leave out -D",
        nccl_version_text(library_version), nccl_version_text(header_version));
  }
  return {};
}

}  // namespace busbar
