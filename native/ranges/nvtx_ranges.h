// NVTX ranges: what Nsight Systems and other tools show of a program.
//
// NVTX is a protocol, not a library: the program finds the tool's library by an environment
// variable, hands it tables of empty function pointers, and the tool fills in those it wants. This
// is that much of it; layout and numbers are those of NVTX 3 (nvtx3/nvtxDetail/nvtxTypes.h).
#pragma once

#include "log/core_api.h"

namespace opscope {

// [MT] Where NVTX ranges go; nullptr where no tool is attached, and `why_not` says how to attach one.
// The tool is looked for once in the life of a process.
const RangeSink* nvtx_ranges(const char** why_not);

}  // namespace opscope
