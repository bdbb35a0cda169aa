#pragma once

#include "common/backends/backend.h"
#include "common/backends/backend_traits.h"
#include "common/backends/gloo/gloo_backend.h"
#include "common/backends/mpi/mpi_algorithms.h"
#include "common/processes/child.h"
#include "driver/compare/comparison.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

// Which settings of a library take effect for a communicator, and which for a process: NCCL 2.28 (src/graph/tuning.cc,
// src/init.cc) and Open MPI 4.1 (ompi/mca/coll/tuned). Pure, and free of MPI.

/// Whether communicators of one job can differ in it: NCCL_ALGO, nccl.ctas, ompi.algorithm, ompi.coll_tuned_*,
/// mpich.algorithm (put in force while a communicator runs).
bool rereads_per_communicator(std::string_view name);

/// Which device API kernels run instead of NCCL's own: -D.
inline constexpr std::string_view kDeviceKernel = "device";

/// Their names, for messages.
std::vector<std::string> settings_of_communicators();

/// The setting that does in one job what a variable does in a launch of its own; empty: none.
std::string_view setting_in_one_job(std::string_view name);

/// One --vary: a setting of the library and the values to try.
struct Varied {
  std::string name;
  std::vector<std::string> values;
  bool operator==(const Varied&) const = default;
};

/// "NAME=V1,V2"; a value given twice counts once. Throws Error(bad_config).
Varied parse_vary(std::string_view text);

/// A value list as parse_vary has it, from a file. Throws Error(bad_config).
Varied make_varied(const std::string& name, const std::vector<std::string>& values);

/// Throws Error(bad_config) unless communicators of one job can differ in these settings: what a library reads once per
/// process needs a launch per variant, and the message says so. Also for a setting that is varied twice.
void check_vary_in_one_job(std::span<const Varied> varied);

/// Throws Error(bad_config) for settings that decide nothing in MPI's nonblocking functions: all variants would be one.
void check_vary_nonblocking(std::span<const Varied> varied);

/// The library's own choice, and every combination of the values; labels are the values. Nothing is checked: for
/// variants that are launches. Throws Error(bad_config) for more than kMaxVariants.
std::vector<Variant> all_combinations(std::span<const Varied> varied);
inline constexpr std::size_t kMaxVariants = 64;

/// The same for communicators of one job, with names and `all` resolved for this collective. Throws Error(bad_config)
/// for settings of another library than `backend` and for values that it does not have, naming those that it has.
std::vector<Variant> make_variants(std::span<const Varied> varied, const Collective& collective,
                                   const BackendTraits& backend);

/// The value of a setting, or null.
const std::string* setting(const Variant& variant, std::string_view name);

/// What a variant of make_variants forces in Open MPI; algorithm 0 if it forces nothing.
OmpiChoice ompi_choice(const Variant& variant, const Collective& collective);

/// Where a variant will run, as far as it matters to what can run.
struct Whereabouts {
  int nnodes = 1;
  int ranks_per_node = 1;  ///< the most
};

/// Why the variant cannot run the operation, or would silently be another one, in a sentence; nothing if it can as
/// far as is known before trying. Pure, so that ranks cannot disagree.
std::optional<std::string> why_not(const Variant& variant, const Operation& op, const Whereabouts& where);

/// Whether environment variables can give it to a whole launch: false if only a communicator takes it.
bool has_environment(std::string_view setting);

/// The environment variables that give a launch the variant's settings: a variable as it is; `ompi.algorithm` and
/// `ompi.segmentsize`, `mpich.algorithm` as what forces them for the collective, any other `ompi.NAME` as
/// OMPI_MCA_NAME; `nccl.FIELD` as the variable of that field of ncclConfig_t; NCCL_ALGO and NCCL_PROTO for the
/// collective alone, because since NCCL 2.24 a collective for which nothing is left fails. Sizes such as 4M become
/// bytes for NCCL, which reads 4 there. Throws Error(bad_config) for an algorithm or a field that does not exist.
EnvironmentSettings variant_environment(const Variant& variant, const Collective& collective);

// What NCCL_ALGO and NCCL_PROTO can choose between, from NCCL 2.28's sources (src/init.cc, src/graph/tuning.cc,
// src/device/generate.py). Pure: nothing of NCCL is needed.

/// NCCL's spelling ("Ring", "^NVLS") of an algorithm or protocol in any case; a leading ^ means all but this one.
/// Throws Error(bad_config) naming the choices.
std::string nccl_algorithm_name(std::string_view text);
std::string nccl_protocol_name(std::string_view text);

/// The value that forces it for one collective alone: "allreduce:tree". The others keep what they had, because since
/// NCCL 2.24 a collective for which nothing is left fails.
std::string for_collective(const Collective& collective, std::string_view value);

/// Why no kernel, or no NCCL, runs this; nothing if one may. `algorithm` and `protocol` are names as above, or empty
/// if NCCL chooses.
std::optional<std::string> nccl_why_not(const Operation& op, std::string_view algorithm, std::string_view protocol,
                                        int nnodes, int ranks_per_node);

}  // namespace busbar
