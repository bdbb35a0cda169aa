#include "programs/perf/perf.h"

int main(int argc, char** argv) { return busbar::run_perf(argc, argv, BUSBAR_COLLECTIVE_NAME); }
