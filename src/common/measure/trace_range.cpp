#include "common/measure/trace_range.h"

#if BUSBAR_HAVE_NVTX

#include <nvtx3/nvToolsExt.h>

namespace busbar {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kHandle = nvtxDomainCreateA("busbar");
  return kHandle;
}

}  // namespace

// Without a tool NVTX makes no domain.
bool TraceRange::has_domain() { return domain() != nullptr; }

void TraceRange::push(const char* name) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &event);
}

void TraceRange::pop() { nvtxDomainRangePop(domain()); }

}  // namespace busbar

#endif
