#pragma once

#include "common/record/host_look.h"

#include <cstdint>
#include <string>
#include <vector>

namespace busbar {

/// The path of a program that may be run although its folder comes from PATH or from a job: owned by root, or in
/// `own_folder` if only root and this user can write there; empty: there is none. Nobody else can have replaced it.
std::string trusted_program(const std::string& name, const std::string& own_folder);

/// The folder of this executable.
std::string own_program_folder();

/// The py-spy for a process: a trusted one, or that of the process's own environment if this is its user.
std::string py_spy_for(const LookProcess& process, unsigned uid, const std::string& trusted);

/// The Python stacks of a process by `py-spy dump --nonblocking`, which reads memory and stops nothing. Throws
/// Error(not_possible) with py-spy's reason.
std::vector<LookThread> python_stacks(const std::string& py_spy, std::int64_t pid);

/// The native stacks: STOPS the process while they are read, for py-spy --native (Python) or gdb.
std::vector<LookThread> native_stacks(const std::string& py_spy, const std::string& gdb, std::int64_t pid);

/// Threads and frames in the output of `py-spy dump --json`, and in that of gdb's `thread apply all bt`.
std::vector<LookThread> parse_py_spy(const std::string& json, bool native);
std::vector<LookThread> parse_gdb(const std::string& text);

/// What nvidia-smi says about the GPUs. Throws Error(not_possible) with its reason.
std::vector<LookGpu> read_nvidia_smi(const std::string& nvidia_smi);
/// GPUs in its CSV output, and in its complaints.
std::vector<LookGpu> parse_nvidia_smi(const std::string& gpus, const std::string& processes);

}  // namespace busbar
