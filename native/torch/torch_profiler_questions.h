// Part of torch_bridge.cpp: functions that torch's Python library calls before spans for profilers.
//
// _RecordFunctionFast begins a span, and functions of torch.autograd.Function pass on their arguments, only
// if a torch profiler runs on the thread. While spans are recorded, opscope answers these two calls. The
// functions for programs (torch.autograd._profiler_enabled, _profiler_type) are not redirected.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <atomic>
#include <exception>
#include <memory>

#include "torch/torch_state.h"

namespace opscope {
namespace {

using torch::profiler::impl::ActiveProfilerType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;
using torch::profiler::impl::ProfilerStateBase;

std::atomic<bool> receives_spans{false};

bool wants_inputs() { return (hot.wanted.load(std::memory_order_relaxed) & kWantInputs) != 0; }

// Callers only test that it exists.
class AnyProfiler final : public ProfilerStateBase {
 public:
  AnyProfiler() : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled)) {}
  ActiveProfilerType profilerType() override { return ActiveProfilerType::NONE; }
  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}

  static ProfilerStateBase* instance() {
    static auto* const instance = new AnyProfiler;
    return instance;
  }
};

// The only opscope object ever in a thread's profiler slot, while the program has a profile open that opscope
// records in place of torch (the drop-in). torch's callbacks write as beside a second torch profile.
class DropInProfilerState final : public ProfilerStateBase {
 public:
  DropInProfilerState() : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled)) {}
  ActiveProfilerType profilerType() override {
    return config_.disabled() ? ActiveProfilerType::NONE : ActiveProfilerType::KINETO;
  }
  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}

  // If it cannot be removed (another thread stops, or another entry is on top), its state is "disabled".
  static void show(bool is_open) {
    static auto* const shown =
        new std::shared_ptr<DropInProfilerState>(std::make_shared<DropInProfilerState>());
    const auto kSlot = c10::DebugInfoKind::PROFILER_STATE;
    // For NVTX, torch neither casts it to its own class nor expects Kineto.
    (*shown)->config_.state = is_open ? ProfilerState::NVTX : ProfilerState::Disabled;
    c10::DebugInfoBase* const there = c10::ThreadLocalDebugInfo::get(kSlot);
    if (is_open && there == nullptr) c10::ThreadLocalDebugInfo::_push(kSlot, *shown);
    if (is_open || there != shown->get()) return;
    try {
      c10::ThreadLocalDebugInfo::_pop(kSlot);
    } catch (const std::exception&) {
    }
  }
};

ProfilerStateBase* state_or_ours(ProfilerStateBase* theirs) {
  const bool is_ours = theirs == nullptr && receives_spans.load(std::memory_order_relaxed);
  return is_ours ? AnyProfiler::instance() : theirs;
}

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 13
constexpr const char* kGetState = "_ZN5torch8profiler4impl17ProfilerStateBase3getEb";
ProfilerStateBase* get_state(bool global) {
  ProfilerStateBase* const theirs = ProfilerStateBase::get(global);
  return global ? theirs : state_or_ours(theirs);
}
#else
constexpr const char* kGetState = "_ZN5torch8profiler4impl17ProfilerStateBase6getTLSEv";
ProfilerStateBase* get_state() { return state_or_ours(ProfilerStateBase::getTLS()); }
#endif

bool is_profiler_enabled() {
  return receives_spans.load(std::memory_order_relaxed) || torch::profiler::impl::profilerEnabled();
}

ProfilerConfig get_profiler_config() {
  const bool is_theirs = c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE) != nullptr;
  ProfilerConfig config =
      is_theirs ? torch::profiler::impl::getProfilerConfig() : ProfilerConfig(ProfilerState::Disabled);
  config.report_input_shapes |= wants_inputs();
  return config;
}

}  // namespace
}  // namespace opscope
