#include "common/record/reported_environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace busbar {
namespace {

// An allow-list, because reports are passed on: nobody knows what else a site keeps in its environment.
constexpr std::array<std::string_view, 6> kPrefixes{"NCCL_", "CUDA_", "OMPI_", "UCX_", "SLURM_", "PMIX_"};

// JWT: SLURM_JWT holds the user's credential for Slurm's REST interface.
constexpr std::array<std::string_view, 7> kSecretWords{"TOKEN",  "KEY", "SECRET",    "PASSWORD",
                                                       "PASSWD", "JWT", "CREDENTIAL"};

bool is_secret(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return std::any_of(kSecretWords.begin(), kSecretWords.end(),
                     [&](std::string_view word) { return upper.find(word) != std::string::npos; });
}

}  // namespace

std::vector<std::string> reported_environment(std::span<const std::string> variables) {
  std::vector<std::string> shown;
  for (const std::string& variable : variables) {
    const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
    const bool listed = std::any_of(kPrefixes.begin(), kPrefixes.end(),
                                    [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
    if (listed) shown.push_back(is_secret(name) ? std::string(name) + "=***" : variable);
  }
  return shown;
}

}  // namespace busbar
