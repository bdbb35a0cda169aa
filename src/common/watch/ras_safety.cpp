#include "common/backends/nccl/nccl_fields.h"
#include "common/watch/ras.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace busbar {
namespace {

constexpr int kFirstWithRas = 22400;
constexpr int kFirstThatSendsMissingRanks = 22602;
constexpr int kFirstWithJson = 22807;

std::string nccl(int version) { return "NCCL " + nccl_version_text(version); }

bool can_answer(const RankEvidence& rank) {
  return rank.process.life == ProcessState::Life::alive && rank.process.state != 'T' && rank.process.state != 't' &&
         rank.process.state != 'Z';
}

bool may_create_communicators(const FlightState& flight) {
  return flight.phase == Phase::starting || flight.phase == Phase::mpi_init || flight.phase == Phase::initialization;
}

}  // namespace

RasHazards ras_hazards(const HangEvidence& evidence) {
  RasHazards hazards{.initializing = false, .missing = false};
  int seen = 0;
  for (const HostEvidence& host : evidence.hosts) {
    hazards.missing = hazards.missing || !host.reached;
    for (const RankEvidence& rank : host.ranks) {
      ++seen;
      hazards.missing = hazards.missing || !can_answer(rank);
      hazards.initializing = hazards.initializing || may_create_communicators(rank.flight);
    }
  }
  if (seen == 0 || seen < evidence.nprocs) return {};
  return hazards;
}

RasQuestion safe_ras_question(int nccl_version, const RasHazards& hazards) {
  const auto not_asked = [&](std::string why) { return RasQuestion{RasFormat::none, "not asked: " + std::move(why)}; };
  if (nccl_version <= 0)
    return not_asked("NCCL's version is not known, and before 2.28.7 the question can crash the job");
  if (nccl_version < kFirstWithRas) return not_asked(nccl(nccl_version) + " has no RAS service");
  if (nccl_version >= kFirstWithJson) return {RasFormat::json, {}};
  if (hazards.initializing)
    return not_asked(fmt::format("RAS of {} can crash a job that creates a communicator", nccl(nccl_version)));
  if (nccl_version >= kFirstThatSendsMissingRanks && hazards.missing)
    return not_asked(fmt::format("RAS of {} can crash a job in which a rank is dead or stopped", nccl(nccl_version)));
  return {RasFormat::text, {}};
}

std::string ras_advice(int nccl_version) {
  constexpr std::string_view kAnswer =
      "a rank with a lower count is late, a DEAD process is gone; all equal: the network or a GPU";
  if (safe_ras_question(nccl_version, {}).format == RasFormat::json) {
    return fmt::format(
        "while the job hangs, ask NCCL's RAS ((echo set format json; echo verbose status; sleep 12) | nc localhost "
        "28028): {}",
        kAnswer);
  }
  if (safe_ras_question(nccl_version, {.initializing = false, .missing = false}).format == RasFormat::text) {
    return fmt::format(
        "while the job hangs, if every rank is alive and none is creating a communicator, ask NCCL's RAS (echo verbose "
        "status | nc localhost 28028): {}; otherwise the question can crash a job of {}",
        kAnswer, nccl(nccl_version));
  }
  if (nccl_version > 0) {
    return fmt::format("while the job hangs, read the stacks of all ranks (py-spy dump --nonblocking): {} has no RAS",
                       nccl(nccl_version));
  }
  return "find out NCCL's version (NCCL_DEBUG=VERSION) before you ask its RAS: before 2.28.7 the question can crash "
         "the job";
}

}  // namespace busbar
