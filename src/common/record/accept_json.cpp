#include "common/record/accept_json.h"

#include "common/base/lists.h"
#include "common/record/accept_fields.h"
#include "common/record/doctor_json.h"
#include "common/record/envelope.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"
#include "common/record/reported_environment.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace busbar {

std::string accept_json(const AcceptResult& result) {
  std::vector<std::string> where;
  for (const AcceptResult::Host& host : result.hosts) add_once(where, host.name);
  Json json = envelope_json({"accept", result.start_time, std::move(where), result.command});
  json["plan"] = {{"file", result.plan.file},
                  {"title", result.plan.title},
                  {"digest", fmt::format("{:016x}", result.plan.digest)},
                  {"text", result.plan.text}};
  json.update(fields_json(result));
  json["environment"] = reported_environment(result.environment);  // the file is passed on: no secrets
  Json& doctor = json["doctor"] = Json::array();
  for (const NodeReport& node : result.doctor) doctor.push_back(node_report_value(node));
  return dump_json(json);
}

}  // namespace busbar
