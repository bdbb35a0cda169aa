#include "driver/doctor/doctor_command.h"

#include "common/base/error.h"
#include "common/base/read_file.h"
#include "common/base/units.h"
#include "common/job/before_session.h"
#include "common/mpi/launcher.h"
#include "common/output/table.h"
#include "common/record/doctor_json.h"
#include "driver/command/ranks_program.h"
#include "driver/doctor/checks.h"
#include "driver/doctor/doctor_look.h"
#include "driver/doctor/doctor_options.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <utility>

namespace busbar {
namespace {

/// Of a node that is in several files, the newest report.
std::vector<NodeReport> merged_files(const std::vector<std::string>& files) {
  std::vector<NodeReport> nodes;
  std::map<std::string, std::size_t> at;
  for (const std::string& file : files) {
    for (NodeReport& node : read_doctor_json(read_file(file, "the node's report"), file)) {
      const auto [found, is_new] = at.try_emplace(node.host, nodes.size());
      if (is_new) {
        nodes.push_back(std::move(node));
        continue;
      }
      fmt::print(stderr, "busbar: {} is in several reports; the newest counts\n", printable(node.host));
      if (node.time_s > nodes[found->second].time_s) nodes[found->second] = std::move(node);
    }
  }
  return nodes;
}

int doctor(const DoctorOptions& options) {
  if (options.help) return write_stdout(doctor_help()) ? 0 : static_cast<int>(ExitCode::internal);
  if (options.merge) return conclude_doctor(options, merged_files(options.files));
  if (!options.recorded.empty()) {
    const Probe probe = probe_recorded(read_file(options.recorded, "the recorded machine"), options.recorded);
    return conclude_doctor(options, {look_at_node(probe)});
  }
  return conclude_doctor(options, {look_at_this_node()});
}

}  // namespace

int run_doctor(int argc, char** argv) {
  const Launch launch = detect_launch();
  bool needs_ranks = false;
  // Each node's own rank speaks with --local: their files and exit codes are what was asked for.
  const int code = run_before_session(launch, [&] {
    const DoctorOptions options = read_doctor_options(argc, argv);
    needs_ranks = launch.launched() && options.needs_ranks();
    const bool speaks = options.local ? launch.local_rank <= 0 : launch.rank <= 0;
    return needs_ranks || !speaks ? 0 : doctor(options);
  });
  if (code != 0 || !needs_ranks) return code;
  const int failed = become_ranks_program(argc, argv);  // comes back only where MPI does not start
  if (launch.rank <= 0) {
    fmt::print(stderr, "busbar: without MPI: busbar doctor --local -J NODE.json on each node, then --merge *.json\n");
  }
  return failed;
}

}  // namespace busbar
