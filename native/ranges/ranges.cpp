#include "ranges/ranges.h"

#include "log/bridge_loader.h"
#include "log/recorder.h"
#include "ranges/nvtx_ranges.h"

namespace opscope {

std::string emit_ranges(const std::string& kind, bool with_shapes) {
  const char* why_not = "";
  const bool nvtx = kind == "nvtx";
  const RangeSink* sink = nvtx ? nvtx_ranges(&why_not) : loaded_bridge().itt_ranges();
  if (sink == nullptr) return nvtx ? why_not : "this build of torch has no ITT";
  loaded_bridge();
  Recorder::instance().emit_ranges(sink, /*with_ids=*/nvtx, with_shapes);
  return "";
}

void stop_ranges() { Recorder::instance().emit_ranges(nullptr, false, false); }

}  // namespace opscope
