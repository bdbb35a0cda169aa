#include "common/measure/wrong_records.h"

#include "common/base/records.h"

#include <string>

namespace busbar {
namespace {

std::string pack(const WrongRank& r) {
  return pack_record({std::to_string(r.rank), r.host, r.device, std::to_string(static_cast<int>(r.in_place)),
                      std::to_string(static_cast<int>(r.part)), std::to_string(r.count), std::to_string(r.first),
                      std::to_string(r.last), r.got, r.want, r.cause, std::to_string(r.suspect_rank), r.explanation});
}

WrongRank unpack(const std::vector<std::string>& f) {
  return {.rank = std::stoi(f.at(0)),
          .host = f.at(1),
          .device = f.at(2),
          .in_place = f.at(3) == "1",
          .part = static_cast<WrongPart>(std::stoi(f.at(4))),
          .count = std::stoull(f.at(5)),
          .first = std::stoull(f.at(6)),
          .last = std::stoull(f.at(7)),
          .got = f.at(8),
          .want = f.at(9),
          .cause = f.at(10),
          .suspect_rank = std::stoi(f.at(11)),
          .explanation = f.at(12)};
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
