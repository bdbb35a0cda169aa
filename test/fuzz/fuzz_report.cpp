// Catches: a result file of any kind, damaged or from elsewhere, that ends `busbar report`, `merge` or `history` by
// anything but an Error(bad_config) of one line, or makes a page that is too large or not closed.

#include "common/base/error.h"
#include "common/record/read_run.h"
#include "driver/merge/merged_runs.h"
#include "driver/report/report_html.h"
#include "driver/report/report_parts.h"
#include "fuzz_main.h"
#include "seed_files.h"

using namespace busbar;

extern const long kFuzzRounds = 2500;

namespace {

std::size_t count(std::string_view text, std::string_view word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

/// What is wrong in how `work` ends, or nothing.
template <class Work>
std::string judged(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_config) return std::string("an odd exit code: ") + error.what();
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) return "a message of several lines";
    if (!is_plain(error.what())) return "a control letter in a message";
    return {};
  } catch (const std::exception& error) {
    return std::string("thrown: ") + error.what();
  }
}

std::string page_of(const std::vector<ResultFile>& files) {
  const std::string page = report_html(read_report_files(files));
  if (page.size() > 2'000'000) return "a page that is too large";
  if (!page.ends_with("</html>\n")) return "a page without an end";
  if (count(page, "<script") != count(page, "</script")) return "a script without an end";
  return {};
}

}  // namespace

std::string fuzz_one(std::string_view input) {
  const ResultFile file{"fuzz.json", std::string(input)};
  std::string wrong = judged([&] { return page_of({file}); });
  // Compared with itself, under another name.
  if (wrong.empty()) wrong = judged([&] { return page_of({file, {"again.json", file.text}}); });
  if (wrong.empty()) {
    wrong = judged([&] {
      const RunFile run = read_run(input, "fuzz.json");
      RunFile again = run;
      again.name = "again.json";
      again.launch_uuid += "x";
      const MergedRuns merged = merge_runs({run, again}, 1);
      return merged_text(merged).empty() || merged_json(merged).empty() ? std::string("nothing merged") : std::string();
    });
  }
  return wrong;
}

std::vector<std::string> fuzz_seeds() { return seed_files("frozen", ".json"); }
