#pragma once

#include <string>

namespace busbar {

/// RAS's answer of a job of two nodes and four GPUs, with one row of communicators, up to its errors.
inline std::string ras_answer(const std::string& version, const std::string& row) {
  return "NCCL version " + version + R"( compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          2            1          4        4

Communicators... (0.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    )" + row +
         "\n\nErrors\n======\n\n";
}

}  // namespace busbar
