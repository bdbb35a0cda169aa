#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace busbar {

/// The exit code of a process; the meaning is the same in every executable.
enum class ExitCode : int {
  good = 0,
  internal = 1,
  cuda = 2,
  backend = 3,
  timeout = 4,
  not_possible = 5,
  invalid_use = 6,
  wrong_data = 7,
  inconclusive = 8,
  results_lost = 9,
  bad_config = 255,
};

constexpr int code_of(ExitCode code) { return static_cast<int>(code); }

/// A failure that ends the run: what failed, on what, and what to do about it, in one string. Throw it only inside
/// collectively() or if the process then aborts the whole job.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// An Error that every process of the job throws alike, so that all end cleanly and one of them reports it.
class AgreedError : public Error {
  using Error::Error;
};

/// A library refused a request before it communicated, so that every process is refused alike.
class RefusedError : public Error {
  using Error::Error;
};

/// Throws Error(not_possible): the request is valid but not possible here.
[[noreturn]] inline void throw_not_possible(const std::string& text) { throw Error(ExitCode::not_possible, text); }

/// Throws Error(bad_config): the request is invalid.
[[noreturn]] inline void throw_bad_config(const std::string& text) { throw Error(ExitCode::bad_config, text); }

/// The choice that `word` most likely means: the one with the fewest edits (inserted, dropped, changed or swapped
/// letters), if they are few enough for a typo; else empty. '_' and '-' count as the same letter.
std::string nearest_choice(std::string_view word, const std::vector<std::string>& choices);

/// The collectives' names, as choices.
std::vector<std::string> collective_names();

/// ", did you mean all_reduce?", to follow the word in a message; empty if no choice is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& choices);

/// "unknown collective 'al_reduce', did you mean all_reduce?; choose from: all_gather all_reduce ...".
std::string unknown_choice(std::string_view what, std::string_view word, const std::vector<std::string>& choices);

}  // namespace busbar
