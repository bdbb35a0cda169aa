#include "common/base/error.h"
#include "driver/compare/compare.h"
#include "programs/busbar/driver.h"

#include <algorithm>
#include <array>

namespace busbar {

std::span<const Subcommand> ranks_subcommands() {
  static constexpr std::array kSubcommands{
      Subcommand{"accept", {}, &run_accept},
      Subcommand{"compare", {}, [](int argc, char** argv) { return run_compare(argc, argv, {}); }},
      Subcommand{"doctor", {}, &run_doctor_job},
      Subcommand{"fingerprint", {}, &run_fingerprint},
      Subcommand{"locate", {}, &run_locate},
  };
  return kSubcommands;
}

int run_ranks_subcommand(int argc, char** argv) {
  const auto subcommands = ranks_subcommands();
  const auto found =
      std::ranges::find_if(subcommands, [&](const Subcommand& s) { return s.name == std::string_view(argv[0]); });
  return found != subcommands.end() ? found->run(argc, argv) : static_cast<int>(ExitCode::internal);
}

}  // namespace busbar
