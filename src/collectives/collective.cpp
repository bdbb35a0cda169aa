#include "collectives/collective.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace busbar {

const Collective& collective(CollectiveId id) {
  switch (id) {
#define BUSBAR_CASE(name, Name) \
  case CollectiveId::name:      \
    return k##Name;
    BUSBAR_COLLECTIVES(BUSBAR_CASE)
#undef BUSBAR_CASE
  }
  return kAllReduce;
}

const Collective* find_collective(std::string_view name) {
  for (CollectiveId id : kAllCollectives)
    if (collective(id).name == name) return &collective(id);
  return nullptr;
}

std::string root_words(const Collective& c, int root) {
  if (shown_root(c, root) < 0) return {};
  return (c.id == CollectiveId::pingpong ? " round " : " root ") + std::to_string(root);
}

std::size_t block_offset(const Collective& c, const Problem& p, int rank) {
  std::size_t offset = 0;
  for (int before = 0; before < rank; ++before) offset += c.block(p, before);
  return offset;
}

std::size_t largest_block(const Collective& c, const Problem& p) {
  std::size_t largest = 0;
  for (int rank = 0; rank < p.nranks; ++rank) largest = std::max(largest, c.block(p, rank));
  return largest;
}

namespace {

[[noreturn]] void reject(const std::string& what, std::size_t row, std::size_t column) {
  throw std::invalid_argument(what + " in row " + std::to_string(row + 1) + ", column " + std::to_string(column + 1));
}

std::uint64_t parse_cell(const std::string& word, double scale, std::size_t row, std::size_t column) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(word, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != word.size()) reject("'" + word + "' is not a number", row, column);
  if (!(value >= 0)) reject("'" + word + "' is not a non-negative number", row, column);
  const double scaled = value * scale;
  if (!(scaled < std::ldexp(1.0, 62))) reject("'" + word + "' is too large", row, column);
  return static_cast<std::uint64_t>(scaled) / 16 * 16;
}

}  // namespace

Traffic parse_traffic_matrix(std::string_view text, double scale) {
  Traffic traffic;
  std::istringstream lines{std::string(text)};
  std::string line;
  std::size_t rows = 0;
  std::size_t columns = 0;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string word;
    std::size_t column = 0;
    while (words >> word) traffic.bytes.push_back(parse_cell(word, scale, rows, column++));
    if (column == 0) continue;
    if (rows == 0) columns = column;
    if (column != columns) {
      throw std::invalid_argument("row " + std::to_string(rows + 1) + " has " + std::to_string(column) +
                                  " columns, row 1 has " + std::to_string(columns));
    }
    ++rows;
  }
  if (rows == 0) throw std::invalid_argument("the matrix is empty");
  if (rows != columns) {
    throw std::invalid_argument("the matrix has " + std::to_string(rows) + " rows and " + std::to_string(columns) +
                                " columns; it must be square");
  }
  traffic.dim = static_cast<int>(rows);
  return traffic;
}

}  // namespace busbar
