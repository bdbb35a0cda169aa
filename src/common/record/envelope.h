#pragma once

#include "common/record/json_values.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The schema of all our documents, and of the object `busbar` in a benchmark's -J, whose format is nccl-tests'. Raised
/// if a key changes or goes; readers refuse any other.
inline constexpr int kDocumentSchema = 3;

/// The beginning of all our documents.
struct Envelope {
  std::string_view document;         ///< "accept", "compare", "locate", "doctor", "diagnosis", "communicators", ...
  std::string time;                  ///< of the run's start, or of what it reports; "YYYY-MM-DD HH:MM:SS", local
  std::vector<std::string> where;    ///< hosts, each once
  std::vector<std::string> command;  ///< words; empty: not known
};

/// An object that begins with it, and with the version of this suite.
Json envelope_json(const Envelope& envelope);

/// This process's command line, in the form of documents.
std::vector<std::string> own_command();

/// Throws Error(bad_config) that names the file, its writer and the next step, unless the object has this schema.
void require_schema(const Json& ours, const std::string& name);

/// The name of our document; empty: it is none. Throws as require_schema does.
std::string document_of(const Json& json, const std::string& name);

/// "; `busbar diagnose` reads it", if a document was given to the wrong command; empty if no command reads it.
std::string who_reads(std::string_view document);

/// The document of this kind in `text`. Throws Error(bad_config) that names the file: not JSON, another document, or
/// another schema.
Json read_document(std::string_view text, const std::string& name, std::string_view document);

/// The variables that decide how the libraries behave, for reports: those with a prefix of NCCL, CUDA, Open MPI, UCX,
/// SLURM or PMIx, in the given order, each "NAME=value". Values that may be secrets become `***`.
std::vector<std::string> reported_environment(std::span<const std::string> variables);

}  // namespace busbar
