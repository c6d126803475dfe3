// Part of torch_bridge.cpp: what torch's Python library asks before it begins a span for a profiler.
//
// _RecordFunctionFast begins a span, and the functions of torch.autograd.Function hand on their arguments,
// only where a profiler of torch's runs on the thread. The answers to these two come from us while spans are
// recorded. What programs ask (torch.autograd._profiler_enabled, _profiler_type) does not go this way.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <atomic>

#include "torch/torch_state.h"

namespace opscope {
namespace {

using torch::profiler::impl::ActiveProfilerType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;
using torch::profiler::impl::ProfilerStateBase;

std::atomic<bool> hears_spans{false};

bool wants_inputs() { return (hot.wanted.load(std::memory_order_relaxed) & kWantInputs) != 0; }

// Whether it is there is all that is asked of it.
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

ProfilerStateBase* ours_if_none(ProfilerStateBase* theirs) {
  const bool is_ours = theirs == nullptr && hears_spans.load(std::memory_order_relaxed);
  return is_ours ? AnyProfiler::instance() : theirs;
}

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 13
constexpr const char* kGetState = "_ZN5torch8profiler4impl17ProfilerStateBase3getEb";
ProfilerStateBase* get_state(bool global) {
  ProfilerStateBase* const theirs = ProfilerStateBase::get(global);
  return global ? theirs : ours_if_none(theirs);
}
#else
constexpr const char* kGetState = "_ZN5torch8profiler4impl17ProfilerStateBase6getTLSEv";
ProfilerStateBase* get_state() { return ours_if_none(ProfilerStateBase::getTLS()); }
#endif

bool is_profiler_enabled() {
  return hears_spans.load(std::memory_order_relaxed) || torch::profiler::impl::profilerEnabled();
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
