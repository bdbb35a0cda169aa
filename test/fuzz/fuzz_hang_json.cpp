// Catches: a hang file whose reader, or the judge and the reports of what it read, crashes, runs on, or answers with
// anything but a finding; one that is read and written again otherwise; control letters on a terminal; ranks to blame
// that the file does not know.

#include "common/base/error.h"
#include "common/evidence/hang_evidence.h"
#include "fuzz_main.h"
#include "untimed.h"

#include <algorithm>
#include <string>

using namespace busbar;

namespace {

HangEvidence small_job(HangEvidence::Occasion occasion) {
  HangEvidence job;
  job.occasion = occasion;
  job.jobid = "7";
  job.nprocs = 3;
  job.limit_s = 30;
  job.idle_s = 31;
  job.host_of_rank = {"a", "a", "b"};
  job.hosts.resize(2);
  for (int rank = 0; rank < 3; ++rank) {
    RankEvidence r;
    r.flight.rank = rank;
    r.flight.nprocs = 3;
    r.flight.pid = 100 + rank;
    r.flight.phase = Phase::timed_loop;
    r.flight.call = CalledOperation{0, "all_reduce", 8, "float", "sum", -1, 32, false};
    r.flight.entered = 5;
    r.flight.finished = {{Phase::checking, "all_gather", 8, 4, 2, 1}};
    r.process = {ProcessState::Life::alive, 'S', "futex"};
    HostEvidence& host = job.hosts[rank == 2 ? 1 : 0];
    host.host = rank == 2 ? "b" : "a";
    host.reached = true;
    host.ranks.push_back(r);
  }
  job.hosts[0].troubles = {{Trouble::Kind::resource, "/dev/shm is full"}};
  job.hosts[0].probes = {{"b", PeerProbe::Result::timed_out, false}};
  job.hosts[0].links = {{"b", JobLink::State::standing}};
  job.ras = {{"a", true, "", {"line"}, {102}, {1}}};
  return job;
}

bool plain_text(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c == '\n' || (byte >= 32 && byte != 127);
  });
}

}  // namespace

extern const long kFuzzRounds = 20000;

std::string fuzz_one(std::string_view input) {
  HangEvidence job;
  try {
    job = read_hang_json(input, "h.json");
  } catch (const Error&) {
    return {};
  }
  const HangFinding finding = judge(job);
  if (finding.sentence.empty()) return "no sentence";
  if (!plain_text(hang_report(job, finding))) return "a control letter in the report";
  const std::string text = hang_json(job, finding);
  const HangEvidence back = read_hang_json(text, "h.json");
  if (untimed(hang_json(back, judge(back))) != untimed(text)) return "it reads otherwise what it wrote";
  int most = std::max(job.nprocs, static_cast<int>(job.host_of_rank.size())) - 1;
  for (const HostEvidence& host : job.hosts) {
    for (const RankEvidence& rank : host.ranks) most = std::max({most, rank.flight.rank, rank.flight.nprocs - 1});
  }
  if (!finding.ranks.empty() && (finding.ranks.front() < 0 || finding.ranks.back() > most)) return "a rank of no job";
  return {};
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const auto occasion : {HangEvidence::Occasion::limit, HangEvidence::Occasion::slow_limit,
                              HangEvidence::Occasion::terminated, HangEvidence::Occasion::files}) {
    HangEvidence job = small_job(occasion);
    seeds.push_back(hang_json(job, judge(job)));
    job.hosts[0].ranks[1].process = {ProcessState::Life::gone, 'Z', ""};
    job.hosts[1].reached = false;
    seeds.push_back(hang_json(job, judge(job)));
  }
  return seeds;
}
