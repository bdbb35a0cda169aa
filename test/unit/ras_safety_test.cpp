// Would catch: NCCL's RAS service asked where the question crashes the job: while a communicator is being created, in
// text while a rank is missing, or without NCCL's version being known; a hazard overlooked in the evidence.

#include "common/machine/mapped_nccl.h"
#include "common/watch/ras.h"

#include <catch2/catch.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace busbar;
using Catch::Contains;

namespace {

constexpr RasHazards kNoIndex{.initializing = false, .missing = false};
constexpr RasHazards kInitializing{.initializing = true, .missing = false};
constexpr RasHazards kMissing{.initializing = false, .missing = true};

RankEvidence rank(Phase phase, char state = 'S', ProcessState::Life life = ProcessState::Life::alive) {
  RankEvidence rank;
  rank.flight.phase = phase;
  rank.process.life = life;
  rank.process.state = state;
  return rank;
}

HangEvidence job(std::vector<RankEvidence> ranks, int nprocs = 2) {
  HangEvidence evidence;
  evidence.nprocs = nprocs;
  HostEvidence host;
  host.host = "node0";
  host.reached = true;
  host.ranks = std::move(ranks);
  evidence.hosts.push_back(std::move(host));
  return evidence;
}

}  // namespace

TEST_CASE("RAS is asked in the format and the state of the job in which it does not crash", "[watch][ras]") {
  struct Row {
    int version;
    RasFormat quiet, initializing, missing;
  };
  using enum RasFormat;
  // From src/ras of each release, and the threads NVIDIA/nccl#1669, #1718, #1762, #2346.
  for (const Row& row : {
           Row{0, none, none, none},      // not known
           Row{-1, none, none, none},     //
           Row{22304, none, none, none},  // no RAS yet
           Row{22403, text, none, text},  // reads a communicator before its data are there
           Row{22501, text, none, text},  //
           Row{22602, text, none, none},  // and steps over the records of missing ranks
           Row{22606, text, none, none},  //
           Row{22703, text, none, none},  // an empty record for one that is being created
           Row{22707, text, none, none},  //
           Row{22803, text, none, none},  //
           Row{22807, json, json, json},  // the first that has JSON
           Row{22809, json, json, json},  //
           Row{22902, json, json, json},  //
           Row{23203, json, json, json},
       }) {
    INFO(row.version);
    CHECK(safe_ras_question(row.version, kNoIndex).format == row.quiet);
    CHECK(safe_ras_question(row.version, kInitializing).format == row.initializing);
    CHECK(safe_ras_question(row.version, kMissing).format == row.missing);
    for (const RasHazards& hazards : {kNoIndex, kInitializing, kMissing, RasHazards{}}) {
      const RasQuestion question = safe_ras_question(row.version, hazards);
      CHECK((question.format == none) == !question.why_not.empty());
    }
  }
  CHECK_THAT(safe_ras_question(0, kNoIndex).why_not, Contains("version is not known"));
  CHECK_THAT(safe_ras_question(22703, kMissing).why_not, Contains("2.27.3"));
}

TEST_CASE("a rank that is not known to be alive and past its initialization is a hazard", "[watch][ras]") {
  const RankEvidence busy = rank(Phase::timed_loop);
  const auto is = [](const HangEvidence& evidence, bool initializing, bool missing) {
    const RasHazards found = ras_hazards(evidence);
    CHECK(found.initializing == initializing);
    CHECK(found.missing == missing);
  };
  is(job({busy, busy}), false, false);
  is(job({busy, rank(Phase::initialization)}), true, false);
  is(job({busy, rank(Phase::starting)}), true, false);
  is(job({busy, rank(Phase::timed_loop, 'T')}), false, true);
  is(job({busy, rank(Phase::timed_loop, 't')}), false, true);
  is(job({busy, rank(Phase::timed_loop, 'Z')}), false, true);
  is(job({busy, rank(Phase::timed_loop, 'S', ProcessState::Life::gone)}), false, true);
  is(job({busy, rank(Phase::timed_loop, 'S', ProcessState::Life::unknown)}), false, true);
  is(job({busy}), true, true);  // nothing is known of the other one
  is(HangEvidence{}, true, true);
  HangEvidence unreached = job({busy, busy});
  unreached.hosts.emplace_back().host = "node1";
  is(unreached, false, true);
}

TEST_CASE("what people are told to type follows the same rule", "[watch][ras]") {
  CHECK_THAT(ras_advice(22809), Contains("set format json"));
  CHECK_THAT(ras_advice(22703), Contains("if every rank is alive") && Contains("2.27.3"));
  CHECK_THAT(ras_advice(0), Contains("version") && !Contains("28028"));
  CHECK_THAT(ras_advice(22105), !Contains("28028"));
}

TEST_CASE("NCCL's version is read from its words", "[machine]") {
  CHECK(nccl_version_number("2.28.9+cuda13.0") == 22809);
  CHECK(nccl_version_number("2.32.3") == 23203);
  for (const char* text : {"", "2", "2.28", "2.x.1", "-2.28.9", "mismatch", "2.281.9", "99999999999.1.1"}) {
    CHECK(nccl_version_number(text) == 0);
  }
}

TEST_CASE("NCCL's version is read from the library that a process has loaded", "[machine]") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("busbar_mapped_nccl_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  };
  CHECK(nccl_version_of_file(write("libnccl.so.2.27.5", "")) == 22705);
  const std::string others = "Mismatched NCCL version detected : rank %d version %d\nNCCL version mismatch with ";
  CHECK(nccl_version_of_file(write("libnccl.so.2", others + std::string("\0NCCL version 2.26.5+cuda12.8\0", 30))) ==
        22605);
  CHECK(nccl_version_of_file(write("libnccl.so.2", others)) == 0);
  // Wherever the text lies in a large file.
  for (const std::size_t at : {(std::size_t{1} << 20) - 20, (std::size_t{1} << 20) - 1, std::size_t{5} << 20}) {
    CHECK(nccl_version_of_file(write("libnccl.so.2", std::string(at, 'x') + "NCCL version 2.29.7+cuda13.1")) == 22907);
  }
  CHECK(nccl_version_of_file((folder / "is_not_there.so.2").string()) == 0);

  CHECK(mapped_nccl_version(-1) == 0);                   // cannot be read
  CHECK(mapped_nccl_version(getpid()) == std::nullopt);  // none is loaded
  // A mapped file by that name, as this process's own.
  const std::string mapped = write("libnccl.so.2.30.4", std::string(4096, 'x'));
  FILE* const file = std::fopen(mapped.c_str(), "r");
  REQUIRE(file != nullptr);
  void* const memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fileno(file), 0);
  REQUIRE(memory != MAP_FAILED);
  CHECK(mapped_nccl_version(getpid()) == 23004);
  munmap(memory, 4096);
  std::fclose(file);
  std::filesystem::remove_all(folder);
}
