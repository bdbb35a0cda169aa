// Would catch: a tab of MPICH's in the header and in every record, or a library whose name is lost.

#include "common/processes/session.h"

#include <catch2/catch.hpp>

using namespace busbar;

TEST_CASE("A library's own words become its name and number", "[launcher][cluster]") {
  CHECK(short_library_version("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4") ==
        "Open MPI 4.1.4");
  CHECK(short_library_version("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n") ==
        "MPICH 4.0.2");
  CHECK(short_library_version("MPICH Version:      4.3.0\nMPICH Release date: ...") == "MPICH 4.3.0");
  CHECK(short_library_version("MVAPICH2 Version      :\t2.3.7\nMVAPICH2 Release date") == "MVAPICH2 2.3.7");
  CHECK(short_library_version("Intel(R) MPI Library 2021.13 for Linux* OS\n") ==
        "Intel(R) MPI Library 2021.13 for Linux* OS");
  CHECK(short_library_version("vendor's MPI").find("vendor's MPI") == 0);
}
