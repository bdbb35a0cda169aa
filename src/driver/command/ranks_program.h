#pragma once

namespace busbar {

/// Becomes busbar-ranks, the half of busbar that is linked with MPI, beside this executable: argv[0] is the
/// subcommand's name. Returns an exit code, after one message from one rank, where it is not there or where MPI is not.
int become_ranks_program(int argc, char** argv);

}  // namespace busbar
