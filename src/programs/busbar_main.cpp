#include "programs/busbar/driver.h"

int main(int argc, char** argv) { return busbar::run_driver(argc, argv); }
