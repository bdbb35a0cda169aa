#include "driver/command/subcommand.h"
#include "programs/busbar/driver.h"

int main(int argc, char** argv) { return busbar::run_driver(argc, argv, &busbar::become_ranks_program); }
