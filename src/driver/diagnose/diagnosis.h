#pragma once

#include "common/base/compress_list.h"
#include "common/evidence/hang_evidence.h"
#include "common/record/finding.h"
#include "driver/readers/log_files.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace busbar {

/// A communicator over all ranks whose logs were given.
struct CommName {
  std::string name;        ///< "communicator 0x3470ca318760efc8 (2 ranks)"
  std::string id;          ///< commId in hexadecimal; empty: joined by other means
  bool heuristic = false;  ///< by size and order of creation
  bool child = false;      ///< of a split or shrink
  int nranks = -1;
  int nnodes = -1;
};

/// What is concluded from the logs of a job: everything that is printed, as plain values.
struct Diagnosis : Finding {
  struct Init : CommName {
    std::vector<int> started;
    std::vector<int> completed;
    RankList not_seen;  ///< neither began nor completed in the files given
    std::vector<std::string> slow_phases;
  };
  std::vector<Init> communicators;

  struct Lag {
    int rank = -1;    ///< -1: not known
    std::string who;  ///< "rank 3 (node1, pid 4242)"
    std::string communicator;
    std::uint64_t ordinal = 0;  ///< calls seen
    std::uint64_t op_count = 0;
    std::string last;       ///< "AllReduce count 1024 datatype 7 op 0"
    bool recorded = false;  ///< op_count is the recorded number: PyTorch's SeqNum
  };
  std::vector<Lag> lags;                 ///< last call of each rank, the most behind first
  std::vector<std::string> divergences;  ///< first differing call per communicator, as text, and deadlock cycles

  std::vector<std::string> skews;  ///< versions, environment, interfaces and HCAs that differ between ranks
  std::vector<std::pair<std::string, std::string>> facts;  ///< ("nccl_version", "2.28.9"), ("transport", "NET/IB"), ...
  struct HostPair {
    std::string from, to, via;
    std::uint64_t connections = 0;
  };
  std::vector<HostPair> transports;
  std::vector<std::string> algorithms;  ///< "AllReduce up to 64 KiB: TREE/LL; ..."

  struct WarningGroup {
    std::string shape;       ///< numbers and addresses replaced
    std::string example;     ///< as first seen
    std::string who, where;  ///< rank or process; file:line of the log
    std::string timestamp;
    std::uint64_t times = 0;
    bool victim = false;  ///< reports only that a peer went away
    bool harmless = false;
  };
  std::vector<WarningGroup> warnings;  ///< primary first

  std::vector<LogFile> files;
  int torch_ranks = 0;  ///< ranks whose PyTorch watchdog logged something
};

}  // namespace busbar
