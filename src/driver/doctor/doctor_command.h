#pragma once

namespace busbar {

/// `busbar doctor`: this node, or what other nodes wrote. In a job it becomes busbar-ranks, unless --local or --merge
/// asks for no ranks. Never throws.
int run_doctor(int argc, char** argv);

/// The same for the ranks of a job: every node is looked at. Never throws.
int run_doctor_job(int argc, char** argv);

}  // namespace busbar
