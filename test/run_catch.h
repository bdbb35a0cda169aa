#pragma once

/// Runs the tests of this program as the command line has it; 0 where all passed.
int run_catch(int argc, char** argv);

/// `make test-more`: what CI has no time for.
bool more();
