#pragma once

#include "common/record/json_values.h"

#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// Of every document of ours but a benchmark's -J, whose format is nccl-tests'. Later changes only add fields: a reader
/// takes what it knows.
inline constexpr int kDocumentSchema = 2;

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

/// Which document of ours it is, of this schema or an older one; empty: none.
std::string document_of(const Json& json);

/// "; `busbar diagnose` reads it", for who gave a document of ours to another command; empty where none does.
std::string who_reads(std::string_view document);

/// The schema of a document of ours; 0: it has none that could be one.
int schema_of(const Json& json);

/// The document of this kind in `text`; older ones are turned into the form of this schema. Throws Error(bad_config)
/// that names the file: not JSON, another document, or a schema that only a later version knows. `schema`: where not
/// null, gets that of the file.
Json read_document(std::string_view text, const std::string& name, std::string_view document, int* schema = nullptr);

}  // namespace busbar
