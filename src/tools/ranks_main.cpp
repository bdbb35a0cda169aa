#include "tools/driver.h"
#include "tools/ranks_subcommands.h"

int main(int argc, char** argv) { return busbar::run_driver(argc, argv, &busbar::run_ranks_subcommand); }
