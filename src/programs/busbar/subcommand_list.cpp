#include "driver/command/subcommand.h"
#include "driver/diagnose/diagnose_command.h"
#include "driver/doctor/doctor_command.h"
#include "driver/history/history_command.h"
#include "driver/merge/merge.h"
#include "driver/repeat/repeat.h"
#include "driver/report/report_command.h"

#include <array>

namespace busbar {

std::span<const Subcommand> all_subcommands() {
  // Without a function: they need ranks, and ranks_subcommands.cpp has it.
  static constexpr std::array kSubcommands{
      Subcommand{"accept", "is this cluster good, and if not, where is it bad: a plan, a verdict, a report", nullptr},
      Subcommand{"compare", "settings of the library against its own choice: which is faster at which size", nullptr},
      Subcommand{"diagnose", "what is wrong with a job that hung, failed or is slow, from its logs", &run_diagnose},
      Subcommand{"doctor", "what would make jobs slow or hang, looked for on every node before one runs", &run_doctor},
      Subcommand{"fingerprint", "which of Open MPI's algorithms runs, from what each rank sends", nullptr},
      Subcommand{"history", "results of earlier runs: list, show, over time, against each other", &run_history},
      Subcommand{"locate", "the slow node, link, direction or rank, by name and with counts", nullptr},
      Subcommand{"merge", "launches of one benchmark as one result, with the interval that only launches give",
                 &run_merge},
      Subcommand{"repeat", "one number for a paper or a ticket: a benchmark launched several times", &run_repeat},
      Subcommand{"report", "result files as one HTML file with charts, for a browser", &run_report},
  };
  return kSubcommands;
}

}  // namespace busbar
