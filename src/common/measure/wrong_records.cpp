#include "common/measure/wrong_records.h"

#include "common/base/records.h"

#include <string>

namespace busbar {
namespace {

std::string pack(const WrongRank& r) {
  return pack_record({std::to_string(r.rank), r.host, r.device, r.buffer, std::to_string(r.count),
                      std::to_string(r.first), std::to_string(r.last), r.got, r.want, r.cause,
                      std::to_string(r.suspect_rank), r.explanation});
}

WrongRank unpack(const std::vector<std::string>& f) {
  return {.rank = std::stoi(f.at(0)),
          .host = f.at(1),
          .device = f.at(2),
          .buffer = f.at(3),
          .count = std::stoull(f.at(4)),
          .first = std::stoull(f.at(5)),
          .last = std::stoull(f.at(6)),
          .got = f.at(7),
          .want = f.at(8),
          .cause = f.at(9),
          .suspect_rank = std::stoi(f.at(10)),
          .explanation = f.at(11)};
}

}  // namespace

std::vector<WrongRank> gather_wrong(const Comm& world, const std::vector<WrongRank>& mine) {
  std::string packed;
  for (const WrongRank& record : mine) packed += pack(record);
  std::vector<WrongRank> all;
  for (const std::string& of_process : world.gather(packed)) {
    for (const auto& fields : unpack_records(of_process)) all.push_back(unpack(fields));
  }
  return all;
}

}  // namespace busbar
