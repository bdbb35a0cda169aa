#include "common/record/host_look.h"

#include "common/base/units.h"
#include "common/record/json_fields.h"
#include "common/record/json_values.h"

namespace busbar {

std::string look_document(HostLook look) {
  Json document = envelope_json({"look", local_timestamp(), {look.host}, {}});
  document["look"] = fields_json(look);
  look = {};  // busbar-look has 56 MiB
  return dump_json(document);
}

HostLook read_look(std::string_view text, const std::string& name) {
  const Json document = read_document(text, name, "look");
  return record_at<HostLook>(JsonPlace(document, "", name, "busbar-look").at("look"));
}

}  // namespace busbar
