#include "driver/compare/variants.h"

#include "common/backends/nccl/device_kernels.h"
#include "common/backends/nccl/nccl_fields.h"
#include "common/base/error.h"
#include "common/base/lists.h"
#include "common/base/text.h"
#include "common/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace busbar {
namespace {

constexpr std::array<std::string_view, 3> kOfMpi{"ompi.algorithm", "ompi.segmentsize", kMpichAlgorithm};

/// Any number that coll_tuned reads when a communicator is made.
constexpr std::string_view kTunedStem = "ompi.coll_tuned_";

/// Read again whenever NCCL makes a communicator.
constexpr std::array<std::string_view, 8> kPerCommunicator{
    "NCCL_ALGO",           "NCCL_PROTO",           "NCCL_THREAD_THRESHOLDS", "NCCL_NET",
    "NCCL_COLLNET_ENABLE", "NCCL_NET_MERGE_LEVEL", "NCCL_TOPO_FILE",         "NCCL_GRAPH_FILE"};

/// Next to the numbers of kNcclFields; `nccl.ctas` sets minCTAs and maxCTAs alike, which fixes the number of channels.
constexpr std::array<std::string_view, 2> kConfigFields{"nccl.ctas", "nccl.netName"};

constexpr std::string_view kOmpiAlgorithm = "ompi.algorithm";
constexpr std::string_view kOmpiSegment = "ompi.segmentsize";

/// What Open MPI runs with `all` for an algorithm that needs a segment size; its own decision takes such sizes.
constexpr std::string_view kDefaultSegment = "64K";

void check_name(const std::string& name) {
  if (rereads_per_communicator(name)) return;
  constexpr std::string_view kRemedy = "give each value a launch of its own: --launch \"mpirun -n 4\"";
  if (name.starts_with("NCCL_")) {
    const std::string_view other = setting_in_one_job(name);
    throw_bad_config(fmt::format("NCCL reads {} once per process, so one job cannot vary it: {}{}", name, kRemedy,
                                 other.empty() ? "" : fmt::format(", or vary {}", other)));
  }
  if (name.starts_with("OMPI_MCA_") || name.starts_with("MPIR_CVAR_") || name.starts_with("UCX_")) {
    throw_bad_config(fmt::format("{} is read when MPI starts, so one job cannot vary it: {}", name, kRemedy));
  }
  const std::vector<std::string> known = settings_of_communicators();
  throw_bad_config(fmt::format("no setting {} can be varied in one job{}; choose from: {}", in_quotes(name),
                               did_you_mean(name, known), fmt::join(known, " ")));
}

void check_backend(std::string_view name, const BackendTraits& backend) {
  const BackendTraits* owner = owner_of_setting(name);
  // Settings that no library owns (UCX_TLS) only launches vary, as check_name has it: any library may read them.
  if (owner == nullptr || owner->name == backend.name) return;
  // Host memory is everywhere; another library may need hardware that is not here.
  std::string other;
  if (owner->needs_mpi) {
    other = fmt::format(", or start the job with mpirun and --backend {}", owner->name);
  } else if (owner->memory == MemoryKind::host) {
    other = fmt::format(", or add --backend {}", owner->name);
  }
  throw_bad_config(fmt::format("{} is {}'s, and this job measures {}: vary {}{}", name, owner->title, backend.measures,
                               backend.usual_settings, other));
}

/// A value's name as the library spells it; `all` and the like are lists.
std::vector<std::string> resolve(const std::string& name, const std::string& value, const Collective& collective) {
  if (name == "NCCL_ALGO") return {nccl_algorithm_name(value)};
  if (name == "NCCL_PROTO") return {nccl_protocol_name(value)};
  if (name.starts_with("nccl.") && name != "nccl.netName") return {std::to_string(parse_int(value, 0, 1 << 16))};
  if (name == kDeviceKernel) return {std::to_string(parse_int(value, 0, 4))};
  if (name == kOmpiSegment) return {std::to_string(parse_bytes(value))};
  if (name == kGlooAlgorithm) return gloo_algorithms(collective, value);
  if (name != kOmpiAlgorithm && name != kMpichAlgorithm) return {value};
  const MpiCollective* of_ompi = ompi_collective(collective.id);
  const MpiCollective* of_mpich = mpich_collective(collective.id);
  if (of_ompi == nullptr || of_mpich == nullptr)
    throw_bad_config(fmt::format("{}: {} has no algorithms for it", why_no_algorithms(collective),
                                 name == kMpichAlgorithm ? "MPICH" : "Open MPI"));
  const auto names = [&](const auto& known, const auto& find) -> std::vector<std::string> {
    if (value != "all") return {std::string(find(known, value).name)};
    return mapped(known.algorithms, [](const auto& algorithm) { return std::string(algorithm.name); });
  };
  return name == kMpichAlgorithm ? names(*of_mpich, find_mpich_algorithm) : names(*of_ompi, find_ompi_algorithm);
}

std::string value_label(const std::string& name, const std::string& value) {
  constexpr std::array<std::string_view, 5> kAlone{"NCCL_ALGO", "NCCL_PROTO", kOmpiAlgorithm, kMpichAlgorithm,
                                                   kGlooAlgorithm};
  if (contains(kAlone, name)) return value;
  const std::string_view bare = name.starts_with("nccl.") ? std::string_view(name).substr(5) : std::string_view(name);
  return fmt::format("{}={}", bare, value);
}

/// An algorithm that only exists with segments gets some, and the label says so.
void complete_ompi(Variant& variant, const Collective& collective) {
  const std::string* algorithm = setting(variant, kOmpiAlgorithm);
  if (algorithm == nullptr) return;
  if (*algorithm == "segmented_ring" && setting(variant, kOmpiSegment) == nullptr)
    variant.settings.emplace_back(kOmpiSegment, std::to_string(parse_bytes(kDefaultSegment)));
  const OmpiChoice choice = ompi_choice(variant, collective);
  // On purpose: two communicators with the same settings show what a difference is worth.
  variant.label = choice.algorithm == 0 ? "default again" : describe(collective.id, choice);
  for (const auto& [name, value] : variant.settings) {
    if (name != kOmpiAlgorithm && name != kOmpiSegment) variant.label += "/" + value_label(name, value);
  }
}

/// "4M" as "4194304"; anything that is not digits and a unit stays.
std::string in_bytes(const std::string& value) {
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto unit = std::ranges::find_if_not(value, digit);
  if (unit == value.begin() || unit == value.end() || std::string_view("KMGTkmgt").find(*unit) == std::string::npos)
    return value;
  try {
    return std::to_string(parse_bytes(value));
  } catch (const Error&) {
    return value;
  }
}

/// The field of ncclConfig_t that a setting "nccl.NAME" is; null if it is none.
const NcclField* nccl_field(std::string_view setting) {
  const auto is_it = [&](const NcclField& f) { return fmt::format("nccl.{}", f.name) == setting; };
  const auto* field = std::ranges::find_if(kNcclFields, is_it);
  return field == kNcclFields.end() ? nullptr : field;
}

void add_config_field(const std::string& name, const std::string& value, EnvironmentSettings& environment) {
  if (name == "nccl.ctas") {
    environment.emplace_back("NCCL_MIN_CTAS", value);
    environment.emplace_back("NCCL_MAX_CTAS", value);
    return;
  }
  if (name == "nccl.netName") {
    environment.emplace_back("NCCL_NET", value);
    return;
  }
  const NcclField* field = nccl_field(name);
  if (field == nullptr || field->variable.empty()) {
    throw_bad_config(fmt::format("no environment variable sets {}; name the variable itself", in_quotes(name)));
  }
  environment.emplace_back(field->variable, value);
}

void add_ompi_choice(const Variant& variant, const Collective& collective, EnvironmentSettings& environment) {
  const MpiCollective* known = ompi_collective(collective.id);
  if (known == nullptr) {
    throw_bad_config(fmt::format("Open MPI has no algorithms for {}", collective.name));
  }
  const OmpiChoice choice = ompi_choice(variant, collective);
  const std::string stem = fmt::format("OMPI_MCA_coll_tuned_{}_algorithm", known->name);
  environment.emplace_back("OMPI_MCA_coll_tuned_use_dynamic_rules", "1");
  environment.emplace_back(stem, std::to_string(choice.algorithm));
  if (choice.segment_bytes > 0) environment.emplace_back(stem + "_segmentsize", std::to_string(choice.segment_bytes));
}

void add_mpich_choice(const Collective& collective, const std::string& value, EnvironmentSettings& environment) {
  const MpiCollective* known = mpich_collective(collective.id);
  if (known == nullptr) {
    throw_bad_config(fmt::format("MPICH has no algorithms for {}", collective.name));
  }
  environment.emplace_back(mpich_algorithm_variable(*known), find_mpich_algorithm(*known, value).name);
  environment.emplace_back(mpich_device_variable(*known), "0");
}

}  // namespace

std::vector<std::string> settings_of_communicators() {
  std::vector<std::string> names(kOfMpi.begin(), kOfMpi.end());
  names.insert(names.end(), kPerCommunicator.begin(), kPerCommunicator.end());
  names.insert(names.end(), kConfigFields.begin(), kConfigFields.end());
  for (const NcclField& field : kNcclFields) names.push_back(fmt::format("nccl.{}", field.name));
  for (std::string_view name : {kDeviceKernel, kGlooAlgorithm}) names.emplace_back(name);
  return names;
}

bool rereads_per_communicator(std::string_view name) {
  const std::vector<std::string> known = settings_of_communicators();
  return contains(known, name) || name.starts_with(kTunedStem);
}

std::string_view setting_in_one_job(std::string_view name) {
  if (name.ends_with("_NCHANNELS") || name == "NCCL_MIN_CTAS" || name == "NCCL_MAX_CTAS" || name.ends_with("_NRINGS"))
    return "nccl.ctas";
  if (name == "NCCL_NVLS_ENABLE") return "NCCL_ALGO=^NVLS";
  if (name == "NCCL_PAT_ENABLE") return "NCCL_ALGO=^PAT";
  if (name == "NCCL_CGA_CLUSTER_SIZE") return "nccl.cgaClusterSize";
  if (name == "NCCL_CTA_POLICY") return "nccl.CTAPolicy";
  if (name == "NCCL_NVLS_NCHANNELS") return "nccl.nvlsCTAs";
  return {};
}

Varied make_varied(const std::string& name, const std::vector<std::string>& values) {
  Varied varied{name, {}};
  if (name.empty()) throw_bad_config("a setting has no name: write NAME=V1,V2");
  for (const std::string& value : values) {
    if (value.empty()) throw_bad_config(fmt::format("{}: a value is empty", name));
    if (!contains(varied.values, value)) varied.values.push_back(value);
  }
  if (varied.values.empty()) throw_bad_config(fmt::format("{}: no values to try", name));
  return varied;
}

Varied parse_vary(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) throw_bad_config(fmt::format("{} is not NAME=V1,V2", in_quotes(text)));
  const std::vector<std::string_view> values = split_list(text.substr(equals + 1));
  return make_varied(std::string(text.substr(0, equals)), {values.begin(), values.end()});
}

void check_vary_nonblocking(std::span<const Varied> varied) {
  for (const Varied& v : varied) {
    if (!contains(kOfMpi, v.name) && !v.name.starts_with(kTunedStem)) continue;
    throw_bad_config(fmt::format(
        "{} chooses for MPI's blocking functions alone: leave out --nonblocking, or vary what its nonblocking ones "
        "read, by launches (Open MPI: --launch \"mpirun -n 4\" --vary ompi.coll_libnbc_iallreduce_algorithm=1,2)",
        v.name));
  }
}

void check_vary_in_one_job(std::span<const Varied> varied) {
  std::vector<std::string> seen;
  for (const Varied& v : varied) {
    check_name(v.name);
    if (contains(seen, v.name))
      throw_bad_config(fmt::format("{} is varied twice: put its values into one list", v.name));
    seen.push_back(v.name);
  }
  if (contains(seen, "nccl.ctas") && (contains(seen, "nccl.minCTAs") || contains(seen, "nccl.maxCTAs")))
    throw_bad_config("nccl.ctas sets minCTAs and maxCTAs: vary it, or vary those");
  if (contains(seen, kOmpiSegment) && !contains(seen, kOmpiAlgorithm)) {
    throw_bad_config("ompi.segmentsize belongs to an algorithm: vary ompi.algorithm too");
  }
  const auto of_ompi = [](const std::string& name) { return name.starts_with("ompi."); };
  if (contains(seen, kMpichAlgorithm) && std::ranges::any_of(seen, of_ompi))
    throw_bad_config("mpich.algorithm is MPICH's and ompi.* is Open MPI's: a job has one of them");
}

std::vector<Variant> all_combinations(std::span<const Varied> varied) {
  std::vector<Variant> combinations{{}};
  for (const Varied& v : varied) {
    std::vector<Variant> longer;
    for (const Variant& so_far : combinations) {
      for (const std::string& value : v.values) {
        Variant next = so_far;
        next.settings.emplace_back(v.name, value);
        longer.push_back(std::move(next));
      }
    }
    if (longer.size() > kMaxVariants) {
      throw_bad_config(
          fmt::format("{} combinations are more than {}: vary fewer values at once", longer.size(), kMaxVariants));
    }
    combinations = std::move(longer);
  }
  std::vector<Variant> variants{{.label = "default", .settings = {}}};
  for (Variant& v : combinations) {
    if (v.settings.empty()) continue;
    v.label = joined_words(mapped(v.settings, [](const auto& s) { return value_label(s.first, s.second); }), "/");
    variants.push_back(std::move(v));
  }
  return variants;
}

std::vector<Variant> make_variants(std::span<const Varied> varied, const Collective& collective,
                                   const BackendTraits& backend) {
  std::vector<Varied> resolved;
  for (const Varied& v : varied) {
    check_backend(v.name, backend);
    std::vector<std::string> values;
    for (const std::string& value : v.values) {
      try {
        for (std::string& name : resolve(v.name, value, collective)) values.push_back(std::move(name));
      } catch (const Error& e) {
        throw_bad_config(fmt::format("--vary {}: {}", v.name, e.what()));
      }
    }
    resolved.push_back(make_varied(v.name, values));
  }
  std::vector<Variant> variants = all_combinations(resolved);
  for (Variant& v : variants) complete_ompi(v, collective);
  return variants;
}

const std::string* setting(const Variant& variant, std::string_view name) {
  const auto found = std::ranges::find_if(variant.settings, [&](const auto& s) { return s.first == name; });
  return found == variant.settings.end() ? nullptr : &found->second;
}

OmpiChoice ompi_choice(const Variant& variant, const Collective& collective) {
  OmpiChoice choice;
  const MpiCollective* known = ompi_collective(collective.id);
  const std::string* algorithm = setting(variant, kOmpiAlgorithm);
  if (known == nullptr || algorithm == nullptr) return choice;
  choice.algorithm = find_ompi_algorithm(*known, *algorithm).id;
  if (const std::string* segment = setting(variant, kOmpiSegment)) choice.segment_bytes = parse_bytes(*segment);
  return choice;
}

std::optional<std::string> why_not(const Variant& variant, const Operation& op, const Whereabouts& where) {
  if (setting(variant, kOmpiAlgorithm) != nullptr) return why_not(ompi_choice(variant, *op.collective), op);
  if (const std::string* name = setting(variant, kMpichAlgorithm)) {
    const bool many_hosts = where.nnodes > 1 && where.ranks_per_node > 1;
    return mpich_why_not(find_mpich_algorithm(*mpich_collective(op.collective->id), *name), op, many_hosts);
  }
  if (const std::string* device = setting(variant, kDeviceKernel); device != nullptr && *device != "0") {
    const std::string why = why_no_device_kernel(op.collective->id, std::stoi(*device), op.dtype, op.op);
    if (!why.empty()) return why;
  }
  const std::string* algorithm = setting(variant, "NCCL_ALGO");
  const std::string* protocol = setting(variant, "NCCL_PROTO");
  return nccl_why_not(op, algorithm != nullptr ? *algorithm : "", protocol != nullptr ? *protocol : "", where.nnodes,
                      where.ranks_per_node);
}

bool has_environment(std::string_view setting) {
  const NcclField* field = nccl_field(setting);
  return setting != kGlooAlgorithm && setting != kDeviceKernel && (field == nullptr || !field->variable.empty());
}

EnvironmentSettings variant_environment(const Variant& variant, const Collective& collective) {
  constexpr std::string_view kOmpi = "ompi.";
  EnvironmentSettings environment;
  for (const auto& [name, value] : variant.settings) {
    if (name == kGlooAlgorithm) throw_bad_config("gloo.algorithm needs no launch of its own: vary it without --launch");
    if (name == kDeviceKernel) {
      throw_bad_config("device kernels need no launch of their own: vary device without --launch, with -R 2");
    } else if (name == "ompi.algorithm") {
      add_ompi_choice(variant, collective, environment);
    } else if (name == kMpichAlgorithm) {
      add_mpich_choice(collective, value, environment);
    } else if (name == "ompi.segmentsize") {
      continue;  // with its algorithm
    } else if (name.starts_with(kOmpi)) {
      environment.emplace_back("OMPI_MCA_" + name.substr(kOmpi.size()), value);
    } else if (name == "NCCL_ALGO" || name == "NCCL_PROTO") {
      const bool qualified = value.find(':') != std::string::npos;
      environment.emplace_back(name, qualified ? value : for_collective(collective, value));
    } else if (name.starts_with("nccl.")) {
      add_config_field(name, value, environment);
    } else {
      environment.emplace_back(name, name.starts_with("NCCL_") ? in_bytes(value) : value);
    }
  }
  return environment;
}

}  // namespace busbar
