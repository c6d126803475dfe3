// Part of torch_bridge.cpp: caller of an operator in TorchScript, as torch formats it.
#pragma once

#include <ATen/record_function.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/profiler/util.h>

#include <string>
#include <vector>

#include "log/core_api.h"
#include "torch/torch_state.h"

namespace opscope {
namespace {

struct ScriptPlace {
  uint32_t modules = kNoName;    // "TOP(C)::forward.A0(A)::forward."
  uint32_t functions = kNoName;  // "file(line): function;", innermost first

  bool is_known() const { return modules != kNoName || functions != kNoName; }
};

uint32_t intern_parts(ThreadLog& log, const std::vector<std::string>& parts, char after_each) {
  if (parts.empty()) return kNoName;
  std::string text;
  for (const std::string& part : parts) text += part + after_each;
  return core->intern(&log, text.c_str(), "");
}

// Outside TorchScript's interpreter there is none; one read of a thread-local variable shows that.
[[gnu::noinline]] ScriptPlace script_place(ThreadLog& log, at::RecordScope scope, uint32_t wants) noexcept
    try {
  ScriptPlace place;
  if (scope == at::RecordScope::BACKWARD_FUNCTION) return place;
  if ((wants & kWantModules) != 0) {
    place.modules = intern_parts(log, torch::jit::currentModuleHierarchy(), '.');
  }
  if ((wants & kWantCalls) != 0) {
    if (const auto called = torch::jit::currentCallstack(); !called.empty()) {
      const auto stack = torch::profiler::impl::prepareCallstack(called);
      place.functions = intern_parts(log, torch::profiler::impl::callstackStr(stack), ';');
    }
  }
  return place;
} catch (const std::exception& error) {
  core->fault(error.what());
  return {};
}

// Belongs to the innermost open span.
void append_script_place(ThreadLog& log, const ScriptPlace& place) {
  Record* record = log.append(RecordKind::kScript);
  if (record == nullptr) return;
  record->ticks = now_ticks();
  record->script = {place.modules, place.functions};
  log.publish();
}

}  // namespace
}  // namespace opscope
