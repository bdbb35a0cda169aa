#pragma once

#include "common/base/compress_list.h"
#include "common/statistics/interval.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

using Json = nlohmann::ordered_json;

/// null for infinity and NaN, which JSON lacks.
Json json_number(double value);

/// Seconds as microseconds, to the picosecond, as nccl-tests prints: further digits are noise of the conversion.
Json json_microseconds(double time_s);
Json json_microseconds(const std::vector<double>& times_s);

/// Seconds, to the picosecond, as in our documents.
Json json_seconds(double time_s);
Json json_seconds(const std::vector<double>& times_s);
Json json_seconds(const std::optional<Interval>& interval_s);  // {"low", "high"}, or null

/// "true" or "false": nccl-tests writes its flags as strings.
Json json_flag(bool value);

Json json_text_or_null(const std::string& text);

/// Ranks that a document lists one by one; the largest jobs with all their communicators have far fewer.
inline constexpr std::uint64_t kMostListedRanks = 1 << 20;

/// A list of numbers if the document has `room` for it; otherwise their ranges as a string.
Json json_ranks(const RankList& ranks, std::uint64_t& room);

/// On one line. Names and arguments are untrusted: bytes that are not UTF-8 are replaced instead of ending the run.
std::string dump_json(const Json& value);

/// The same as a document for people: one member per line, and a line break at the end.
std::string dump_document(const Json& document);

/// The untrusted document in `text`: the only way to read JSON (scripts/lint/rooms.py enforces it), because deep
/// nesting ends the process wherever it is copied or written later. Throws Error(bad_config) that begins with `name`
/// and says why the text is not JSON, or which limit of base/read_file.h it breaks.
Json parse_json(std::string_view text, const std::string& name);

/// The beginning of a document in `text`, until it is cut, is not JSON any more or exceeds a limit; open values end
/// there. null if there is none.
Json parse_begun_json(std::string_view text);

/// A value of an untrusted document that knows its place, so that every error message, an Error(bad_config), names the
/// file and the place. It refers to the document and to the file's name, which must outlive it.
class JsonPlace {
 public:
  /// `file`: the beginning of messages. `writer`: the expected writer of the file, named if something is missing.
  JsonPlace(const Json& json, std::string place, const std::string& file,
            std::string_view writer = "-J of this suite's benchmarks")
      : json_(&json), place_(std::move(place)), file_(&file), writer_(writer) {}

  [[noreturn]] void fail(std::string_view what) const;

  bool is_null() const;
  bool has(const char* key) const;
  /// Present and not null.
  bool holds(const char* key) const;

  /// The member, which must be there.
  JsonPlace at(const char* key) const;
  /// Visits the members of an object, in their order.
  void each_member(const std::function<void(const std::string& key, const JsonPlace&)>& visit) const;
  /// Visits the items of a list.
  void each(const std::function<void(const JsonPlace&)>& visit) const;

  std::string text() const;
  std::string text_or_empty() const;
  /// The text of a member; empty if it is null or not there.
  std::string text_at(const char* key) const;
  std::vector<std::string> texts() const;
  bool truth() const;
  std::int64_t whole(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  std::uint64_t unsigned_whole() const;
  /// Any finite number.
  double number() const;
  /// The same, but null is allowed for what JSON cannot express, or what was not known.
  double number_or(double otherwise) const;
  /// Seconds; above 0.
  double seconds() const;
  /// Two times, the lower one first.
  Interval interval_s() const;
  const Json& json() const { return *json_; }

 private:
  const Json* json_;
  std::string place_;
  const std::string* file_;
  std::string_view writer_;
};

// Our documents.

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
