#include "driver/doctor/doctor_options.h"

#include "common/base/error.h"
#include "common/base/options.h"
#include "driver/command/subcommand.h"

#include <fmt/format.h>

namespace busbar {
namespace {

constexpr std::size_t kHidden = 1;  // the last of them

std::vector<OwnOption> own_options(DoctorOptions& o) {
  using Text = std::string_view;
  std::vector<OwnOption> own{
      {"local", "", "this node alone, without MPI, in a job too", [&](Text) { o.local = true; }},
      {"merge", "", "join the reports of nodes, FILE.json ..., instead of looking", [&](Text) { o.merge = true; }},
      {"diff", "OLD.json", "also say what changed since that report, with the counters that moved",
       [&](Text t) { o.diff = t; }},
      {"verbose", "", "print every row, not only what is not OK", [&](Text) { o.verbose = true; }},
      {"strict", "", "a warning fails too", [&](Text) { o.strict = true; }},
  };
  for (OwnOption& option : output_own_options(o.outputs)) own.push_back(std::move(option));
  own.push_back({"recorded", "FILE", "look at a recorded machine", [&](Text t) { o.recorded = t; }});
  return own;
}

void check_options(const DoctorOptions& o) {
  if (o.merge && o.files.empty()) {
    throw Error(ExitCode::bad_config, "--merge what? Give the files that `busbar doctor --local -J FILE.json` wrote");
  }
  if (!o.merge && !o.files.empty()) {
    throw Error(ExitCode::bad_config, fmt::format("{} has no meaning in doctor; reports of other nodes are joined with "
                                                  "--merge FILE.json ...",
                                                  o.files.front()));
  }
  if (o.merge && o.local) throw Error(ExitCode::bad_config, "--merge and --local: either one");
}

}  // namespace

DoctorOptions read_doctor_options(int argc, char** argv) {
  DoctorOptions options;
  std::vector<const char*> words;
  for (int i = 0; i < argc; ++i) {
    // The only letter of its own; the benchmarks have no -v.
    words.push_back(std::string_view(argv[i]) == "-v" ? "--verbose" : argv[i]);
  }
  SplitArguments split = split_arguments(argc, words.data(), own_options(options));
  options.files = std::move(split.words);
  options.help = split.help;
  options.output_file = only_output_file(split.rest, "doctor");
  if (!options.help) check_options(options);
  return options;
}

std::string doctor_help() {
  DoctorOptions unused;
  const std::vector<OwnOption> own = own_options(unused);
  return "usage: mpirun -n N ... busbar doctor [options]      every node of a job\n"
         "       busbar doctor [options]                      this node, no MPI needed\n"
         "       busbar doctor --merge FILE.json ...          what nodes wrote with --local -J FILE.json\n\n"
         "Looks at what makes jobs slow or hang before one runs: limits, /dev/shm, GPUs, network ports, NUMA, "
         "versions,\n"
         "environment. Values that must agree are compared over the nodes. Needs no root, changes nothing.\n\n" +
         own_options_help(std::span(own).first(own.size() - kHidden)) +
         "  -J, --output_file FILE.json         write all values as JSON; an existing file is kept, FILE.json.0 is "
         "written\n"
         "\nExit codes: 0 OK or WARN; 7 FAIL, with --strict WARN too; 255 bad use.\n";
}

}  // namespace busbar
