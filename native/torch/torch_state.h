// Part of torch_bridge.cpp: what every event reads of the bridge.
#pragma once

#include <torch/csrc/api/include/torch/version.h>

#include <atomic>
#include <cstdint>

#include "log/core_api.h"

// Some of what is asked for at every event, torch answers from another library. An explicit instantiation
// may name a private member, so it is read where it stands, in versions of torch that are known to have it.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 13
#define OPSCOPE_READS_PRIVATE 1
#else
#define OPSCOPE_READS_PRIVATE 0
#endif
// Likewise the table of CPU allocations, up to the newest torch that was looked at.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 15
#define OPSCOPE_REACHES_ALLOCATION_TABLE 1
#else
#define OPSCOPE_REACHES_ALLOCATION_TABLE 0
#endif

namespace opscope {
namespace {

const CoreApi* core = nullptr;

// In one cache line, because a program with work of its own to do leaves none of it in the cache.
struct alignas(64) HotState {
  std::atomic<uint32_t> wanted{0};               // see BridgeApi
  std::atomic<uint32_t> operator_generation{0};  // how often operators have gone
  std::atomic<bool> holding{false};              // tensors: both inputs and memory are wanted
  const void* reporter = nullptr;                // what threads have to have for torch to report memory to
};
HotState hot;

}  // namespace
}  // namespace opscope
