#pragma once

#include "common/base/packed_fields.h"
#include "common/processes/comm.h"

#include <iterator>
#include <string>
#include <vector>

namespace busbar {

/// Every process's records on process 0, in the order of the processes; empty elsewhere. A record is a string, a number
/// or a type with visit_fields. Collective.
template <class T>
std::vector<T> gather_records(const Comm& comm, std::vector<T> mine) {
  std::vector<T> all;
  for (const std::string& of_process : comm.gather(pack_fields(std::move(mine)))) {
    std::vector<T> theirs = unpack_fields<std::vector<T>>(of_process);
    all.insert(all.end(), std::make_move_iterator(theirs.begin()), std::make_move_iterator(theirs.end()));
  }
  return all;
}

/// The same on every process. Collective.
template <class T>
std::vector<T> share_records(const Comm& comm, std::vector<T> mine) {
  return unpack_fields<std::vector<T>>(comm.broadcast(pack_fields(gather_records(comm, std::move(mine))), 0));
}

}  // namespace busbar
