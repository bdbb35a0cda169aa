#include "common/base/environment.h"
#include "common/base/lists.h"
#include "common/base/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace busbar {
namespace {

constexpr std::size_t kHelpColumn = 38;
constexpr char kFixedBlank = '\v';  ///< a blank at which no line ends

/// The terminal's, where the shell tells it.
std::size_t last_column() {
  constexpr std::size_t kUsual = 100;
  const char* const asked = std::getenv("COLUMNS");
  const std::size_t columns = asked != nullptr ? std::strtoul(asked, nullptr, 10) : 0;
  return columns >= kHelpColumn + 32 && columns <= 1000 ? columns : kUsual;
}

constexpr std::string_view kExitCodes =
    "    0  good (also when every row was skipped, with the reason)\n"
    "    1  internal error\n"
    "    2  CUDA error\n"
    "    3  NCCL, MPI or hardware error\n"
    "    4  hang or timeout\n"
    "    5  not enough devices, or not possible with this backend\n"
    "    6  invalid use found at run time\n"
    "    7  wrong data, or bandwidth below the threshold\n"
    "    8  inconclusive\n"
    "  255  bad command line or configuration\n";

bool of_nccl_tests(const Option& option) { return option.short_name != 0; }

/// `left`, then `right` wrapped between the help column and the last.
std::string entry(const std::string& left, std::string_view right) {
  std::string text = left;
  std::size_t column = left.size();
  if (column + 2 > kHelpColumn) {
    text += '\n';
    column = 0;
  }
  text.append(kHelpColumn - column, ' ');
  column = kHelpColumn;
  while (!right.empty()) {
    const std::size_t space = right.find(' ');
    const std::string_view word = right.substr(0, space);
    if (column > kHelpColumn && column + 1 + word.size() > last_column()) {
      text += '\n';
      text.append(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (column > kHelpColumn) {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
    right.remove_prefix(space == std::string_view::npos ? right.size() : space + 1);
  }
  std::ranges::replace(text, kFixedBlank, ' ');
  return text + '\n';
}

std::string with_default(const Option& option) {
  const std::string_view text = option.default_text;
  if (text.empty() || text.front() == '(') return std::string(option.help);
  return fmt::format("{} (default:{}{})", option.help, kFixedBlank, text);
}

std::string option_lines(bool nccl_tests, std::span<const std::string_view> only) {
  std::string text;
  for (const Option& o : all_options()) {
    if (of_nccl_tests(o) != nccl_tests || (!only.empty() && !contains(only, o.long_name))) continue;
    const std::string letter = o.short_name != 0 ? fmt::format("-{}, ", o.short_name) : "    ";
    const std::string argument = o.argument.empty() ? "" : fmt::format(" {}", o.argument);
    text += entry(fmt::format("  {}--{}{}", letter, o.long_name, argument), with_default(o));
  }
  return text;
}

std::string environment_lines() {
  std::string text;
  for (const EnvironmentVariable& v : all_environment_variables()) text += entry(fmt::format("  {}", v.name), v.help);
  return text;
}

/// A bar would end the table's cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (char c : text) escaped += c == '|' ? "\\|" : std::string(1, c);
  return escaped;
}

std::string markdown_rows(bool nccl_tests) {
  std::string text = "| option | argument | default | meaning |\n|---|---|---|---|\n";
  for (const Option& o : all_options()) {
    if (of_nccl_tests(o) != nccl_tests) continue;
    const std::string letter = o.short_name != 0 ? fmt::format("`-{}` ", o.short_name) : "";
    text += fmt::format("| {}`--{}` | {} | {} | {} |\n", letter, o.long_name, cell(o.argument), cell(o.default_text),
                        cell(o.help));
  }
  return text;
}

}  // namespace

std::string help_text(std::string_view program, const ProgramHelp& help) {
  return fmt::format(
      "usage: {0} [options]\n"
      "       mpirun -n 4 {0} {5}\n"
      "{6}\n"
      "A SIZE is a number, optionally with K, M, G or T (powers of 1024): 8, 1.5K, 64M, 1GiB.\n"
      "Options take -b8, -b 8, --minbytes=8 and --minbytes 8.\n"
      "\n"
      "Options of nccl-tests:\n{1}\n"
      "Our own options:\n{2}\n"
      "Environment:\n{3}\n"
      "Exit codes:\n{4}",
      program, option_lines(true, help.options), option_lines(false, help.options), environment_lines(), kExitCodes,
      help.example, help.about.empty() ? "" : fmt::format("\n{}\n", help.about));
}

std::string options_markdown() {
  std::string text = "<!-- options:begin -->\nOptions of nccl-tests:\n\n" + markdown_rows(true);
  text += "\nOur own:\n\n" + markdown_rows(false);
  text += "\nEnvironment:\n\n| variable | meaning |\n|---|---|\n";
  for (const EnvironmentVariable& v : all_environment_variables()) {
    text += fmt::format("| `{}` | {} |\n", v.name, cell(v.help));
  }
  return text + "<!-- options:end -->\n";
}

}  // namespace busbar
