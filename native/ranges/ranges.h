// Spans handed on to another tool while it looks at the program, as ranges that it shows.
#pragma once

#include <string>

namespace opscope {

// [GIL] Has every span of every thread shown by the tool: `kind` is "nvtx" or "itt". Returns why the tool
// will see nothing; empty if it will. Raises std::runtime_error without the bridge.
std::string emit_ranges(const std::string& kind, bool with_shapes);
// [GIL] Likewise: ends that.
void stop_ranges();

}  // namespace opscope
