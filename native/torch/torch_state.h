// Part of torch_bridge.cpp: state that every event reads.
#pragma once

#include <torch/csrc/api/include/torch/version.h>

#include <atomic>
#include <cstdint>

#include "log/core_api.h"

// Reads private members of torch instead of calling accessors in another library at every event, in versions
// that are known to have them: C++ allows an explicit template instantiation to name private members.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 13
#define OPSCOPE_READS_PRIVATE 1
#else
#define OPSCOPE_READS_PRIVATE 0
#endif

namespace opscope {
namespace {

const CoreApi* core = nullptr;

// State of every event in one cache line: a busy program usually evicts it; one miss costs less than several.
struct alignas(64) HotState {
  std::atomic<uint32_t> wanted{0};               // see BridgeApi
  std::atomic<uint32_t> operator_generation{0};  // number of unregistrations of operators
  std::atomic<bool> holding{false};              // tensors, so that their addresses are not reused
};
HotState hot;

}  // namespace
}  // namespace opscope
