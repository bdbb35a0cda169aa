#include "tools/driver.h"
#include "tools/ranks_program.h"

int main(int argc, char** argv) { return busbar::run_driver(argc, argv, &busbar::become_ranks_program); }
