#include "programs/comm/comm_perf.h"

int main(int argc, char** argv) { return busbar::run_comm(argc, argv); }
