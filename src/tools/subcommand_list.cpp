#include "tools/compare.h"
#include "tools/fingerprint.h"
#include "tools/merge.h"
#include "tools/subcommand.h"

#include <array>

namespace busbar {

std::span<const Subcommand> all_subcommands() {
  static constexpr std::array kSubcommands{
      Subcommand{"compare", "settings of the library against its own choice: which is faster at which size",
                 [](int argc, char** argv) { return run_compare(argc, argv, {}); }},
      Subcommand{"fingerprint", "which of Open MPI's algorithms runs, from what each rank sends", &run_fingerprint},
      Subcommand{"merge", "launches of one benchmark as one result, with the interval that only launches give",
                 &run_merge},
  };
  return kSubcommands;
}

}  // namespace busbar
