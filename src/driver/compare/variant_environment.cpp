#include "driver/compare/variant_environment.h"

#include "common/base/error.h"
#include "common/base/units.h"
#include "driver/compare/nccl_choices.h"
#include "driver/compare/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace busbar {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

struct FieldVariable {
  std::string_view field;
  std::string_view variable;
};
constexpr std::array<FieldVariable, 6> kFieldVariables{{{"nccl.minCTAs", "NCCL_MIN_CTAS"},
                                                        {"nccl.maxCTAs", "NCCL_MAX_CTAS"},
                                                        {"nccl.cgaClusterSize", "NCCL_CGA_CLUSTER_SIZE"},
                                                        {"nccl.CTAPolicy", "NCCL_CTA_POLICY"},
                                                        {"nccl.nvlsCTAs", "NCCL_NVLS_NCHANNELS"},
                                                        {"nccl.netName", "NCCL_NET"}}};

/// "4M" as "4194304"; anything that is not digits and a unit stays.
std::string in_bytes(const std::string& value) {
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto unit = std::find_if_not(value.begin(), value.end(), digit);
  if (unit == value.begin() || unit == value.end() || std::string_view("KMGTkmgt").find(*unit) == std::string::npos) {
    return value;
  }
  try {
    return std::to_string(parse_bytes(value));
  } catch (const Error&) {
    return value;
  }
}

void add_config_field(const std::string& name, const std::string& value, Environment& environment) {
  if (name == "nccl.ctas") {
    environment.emplace_back("NCCL_MIN_CTAS", value);
    environment.emplace_back("NCCL_MAX_CTAS", value);
    return;
  }
  const auto* field = std::find_if(kFieldVariables.begin(), kFieldVariables.end(),
                                   [&](const FieldVariable& f) { return f.field == name; });
  if (field == kFieldVariables.end()) {
    throw Error(ExitCode::bad_config,
                fmt::format("no environment variable stands for {}; name the variable itself", in_quotes(name)));
  }
  environment.emplace_back(field->variable, value);
}

void add_ompi_choice(const Variant& variant, const Collective& collective, Environment& environment) {
  const OmpiCollective* known = ompi_collective(collective.id);
  if (known == nullptr) {
    throw Error(ExitCode::bad_config, fmt::format("Open MPI has no algorithms for {}", collective.name));
  }
  const OmpiChoice choice = ompi_choice(variant, collective);
  const std::string stem = fmt::format("OMPI_MCA_coll_tuned_{}_algorithm", known->tuned_name);
  environment.emplace_back("OMPI_MCA_coll_tuned_use_dynamic_rules", "1");
  environment.emplace_back(stem, std::to_string(choice.algorithm));
  if (choice.segment_bytes > 0) environment.emplace_back(stem + "_segmentsize", std::to_string(choice.segment_bytes));
}

}  // namespace

Environment variant_environment(const Variant& variant, const Collective& collective) {
  constexpr std::string_view kOmpi = "ompi.";
  Environment environment;
  for (const auto& [name, value] : variant.settings) {
    if (name == "ompi.algorithm") {
      add_ompi_choice(variant, collective, environment);
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
