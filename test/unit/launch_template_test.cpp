// Would catch: a host file with a blank in its name split in two, a command glued to the wrong place of the launcher's
// line, and a misspelt placeholder passed on to mpirun.

#include "common/base/error.h"
#include "driver/launch/launching.h"

#include <catch2/catch.hpp>

using namespace busbar;
using Words = std::vector<std::string>;

TEST_CASE("A command line is split as a shell splits it", "[launch_template][cluster]") {
  CHECK(split_command("mpirun  -n 4\t-x A") == Words{"mpirun", "-n", "4", "-x", "A"});
  CHECK(split_command("a 'b c' \"d e\" f\\ g") == Words{"a", "b c", "d e", "f g"});
  CHECK(split_command("x='1 2'y") == Words{"x=1 2y"});
  CHECK(split_command("'' \"\"") == Words{"", ""});
  CHECK(split_command("\"a\\\"b\\\\c\\d\" 'e\\f'") == Words{"a\"b\\c\\d", "e\\f"});
  CHECK(split_command("$HOME *") == Words{"$HOME", "*"});
  CHECK(split_command("").empty());
  CHECK_THROWS_AS(split_command("mpirun 'x"), Error);
}

TEST_CASE("Quoting is undone by splitting", "[launch_template][cluster]") {
  for (const char* word : {"plain", "", "a b", "it's", "\"q\"", "$x", "a\\b", "{cmd}", "*"}) {
    CHECK(split_command(quote_for_shell(word)) == Words{word});
  }
  CHECK(quote_for_shell("--mca=1") == "--mca=1");
}

TEST_CASE("A launch command puts ranks and command where the template says", "[launch_template][cluster]") {
  const Words command{"build/busbar", "two words"};
  CHECK(launch_command("mpirun -n 4", {}, command) == Words{"mpirun", "-n", "4", "build/busbar", "two words"});
  CHECK(launch_command("mpirun -n {ranks} --hostfile 'my hosts' {cmd} -x", 16, command) ==
        Words{"mpirun", "-n", "16", "--hostfile", "my hosts", "build/busbar", "two words", "-x"});
  CHECK(launch_command("ssh node1 'mpirun -n {ranks} {cmd}'", 2, command) ==
        Words{"ssh", "node1", "mpirun -n 2 build/busbar 'two words'"});
  CHECK(launch_command("sh -c '${x} {} {1,2}'", {}, {}) == Words{"sh", "-c", "${x} {} {1,2}"});
}

TEST_CASE("An unknown placeholder names the known ones", "[launch_template][cluster]") {
  CHECK_THROWS_WITH(launch_command("mpirun -n {nranks}", 4, {"x"}),
                    "{nranks} in the launch command; the placeholders are {cmd} and {ranks}");
  CHECK_THROWS_WITH(launch_command("mpirun -n {ranks}", {}, {"x"}), Catch::Contains("not known here"));
}
