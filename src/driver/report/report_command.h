#pragma once

namespace busbar {

/// `busbar report FILE.json... [-o OUT.html] [--title TEXT]`: result files as one HTML file. Never throws; returns the
/// exit code.
int run_report(int argc, char** argv);

}  // namespace busbar
