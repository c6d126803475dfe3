// Part of torch_bridge.cpp: what every event reads of the bridge.
#pragma once

#include <torch/csrc/api/include/torch/version.h>

#include <atomic>
#include <cstdint>

#include "log/core_api.h"

// Some accessors that every event needs are calls into another of torch's libraries. The private members
// behind them are read directly instead, in versions of torch that are known to have them: C++ allows an
// explicit template instantiation to name private members.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 13
#define OPSCOPE_READS_PRIVATE 1
#else
#define OPSCOPE_READS_PRIVATE 0
#endif

namespace opscope {
namespace {

const CoreApi* core = nullptr;

// What every event reads, in one cache line: in a program with work of its own that line is usually not in
// the cache, and one miss costs less than several.
struct alignas(64) HotState {
  std::atomic<uint32_t> wanted{0};               // see BridgeApi
  std::atomic<uint32_t> operator_generation{0};  // how often operators have gone
  std::atomic<bool> holding{false};              // tensors: their addresses must not be used again
};
HotState hot;

}  // namespace
}  // namespace opscope
