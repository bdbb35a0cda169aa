#include "common/base/records.h"

namespace busbar {
namespace {

constexpr char kField = '\x1f';
constexpr char kRecord = '\x1e';

}  // namespace

std::string pack_record(const std::vector<std::string>& fields) {
  std::string packed;
  for (const std::string& field : fields) packed += field + kField;
  return packed + kRecord;
}

std::vector<std::vector<std::string>> unpack_records(std::string_view packed) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> fields;
  std::string field;
  for (char c : packed) {
    if (c == kField) {
      fields.push_back(std::move(field));
      field.clear();
    } else if (c == kRecord) {
      records.push_back(std::move(fields));
      fields.clear();
    } else {
      field += c;
    }
  }
  return records;
}

}  // namespace busbar
