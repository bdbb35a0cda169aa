#include "common/output/run_envelope.h"

#include "common/base/lists.h"

namespace busbar {

Envelope envelope_of(std::string_view document, const RunInfo& info) {
  Envelope envelope{document, info.start_time, {}, info.args};
  for (const RankInfo& rank : info.ranks) add_once(envelope.where, rank.hostname);
  return envelope;
}

}  // namespace busbar
