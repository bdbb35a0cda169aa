#pragma once

#include "common/record/json_values.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Of every document of ours, and of the object `busbar` in a benchmark's -J, whose format is nccl-tests'. Raised where
/// a key changes or goes; readers refuse any other.
inline constexpr int kDocumentSchema = 3;

/// How every document of ours begins.
struct Envelope {
  std::string_view document;         ///< "accept", "compare", "locate", "doctor", "diagnosis", "communicators", ...
  std::string time;                  ///< of the run's start, or of what it tells; "YYYY-MM-DD HH:MM:SS", local
  std::vector<std::string> where;    ///< hosts, each once
  std::vector<std::string> command;  ///< words; empty: not known
};

/// An object that begins with it, and with the version of this suite.
Json envelope_json(const Envelope& envelope);

/// This process's command line, as documents name it.
std::vector<std::string> own_command();

/// Throws Error(bad_config) that names the file, what wrote it and what to do, where the object is not of this schema.
void require_schema(const Json& ours, const std::string& name);

/// Which document of ours it is; empty: none. Throws as require_schema does.
std::string document_of(const Json& json, const std::string& name);

/// "; `busbar diagnose` reads it", for who gave a document of ours to another command; empty where none does.
std::string who_reads(std::string_view document);

/// The document of this kind in `text`. Throws Error(bad_config) that names the file: not JSON, another document, or of
/// another schema.
Json read_document(std::string_view text, const std::string& name, std::string_view document);

/// The variables that decide how the libraries behave, for reports: those with a prefix of NCCL, CUDA, Open MPI, UCX,
/// SLURM or PMIx, in the order given, each "NAME=value". Values that may be secrets become `***`.
std::vector<std::string> reported_environment(std::span<const std::string> variables);

}  // namespace busbar
