// Part of torch_bridge.cpp: skips operators inside operators that no window wants.
//
// Each thread has a copy of torch's list of callbacks per scope (at::StepCallbacks). While an outermost
// operator runs and its thread has no other callback, opscope empties the copies for operators and backward
// nodes, by setting the size of a vector. torch then skips callbacks, names and argument lists of inner
// operators. It rebuilds the list whenever a callback is added or removed on any thread, and whenever a
// thread takes over the local state of another; then all operators are recorded again, which is safe.
//
// at::enableRecordFunction would do the same, but takes a lock and creates a list each time, and also affects
// other threads that work for this one.
//
// The lists have no symbol. They are searched for behind public members of the same object, and confirmed if
// torch reports no callbacks once they are empty.
#pragma once

#include <ATen/record_function.h>

#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "torch/torch_locks.h"

namespace opscope {
namespace {

class InnerOperators {
 public:
  // Before anything is recorded. `probe` is registered, for the scopes to find.
  static bool find(at::RecordFunctionCallback::StartCallback probe) {
    for (size_t i = 0; i < kScopes.size(); ++i) {
      at::getStepCallbacksUnlessEmpty(kScopes[i]);  // makes torch update the thread's list
      offsets_[i] = search(kScopes[i], probe);
      if (offsets_[i] == 0) return is_found_ = false;
    }
    return is_found_ = true;
  }
  // Whether this torch supports it.
  static bool is_found() { return is_found_; }

  // [owner] `fn` begins, and no window wants what it calls.
  static void leave_out(const at::RecordFunction& fn, const c10::FunctionSchema* schema) {
    if (!is_found_ || fn.isAsync() || !is_operator(fn, schema)) return;
    for (size_t i = 0; i < kScopes.size(); ++i) {
      at::StepCallbacks& called = called_on_this_thread(i);
      // Other callbacks receive all operators.
      if (called.callbacks_.size() != 1 || called.callbacks_.data()->start_ != ours) return;
    }
    for (size_t i = 0; i < kScopes.size(); ++i) called_on_this_thread(i).callbacks_.set_size(0);
    outermost = &fn;
  }

  // [owner] `fn` ends: later operators are recorded again.
  static void ended(const at::RecordFunction& fn) {
    if (outermost != &fn) return;
    outermost = nullptr;
    // Empty for another reason: the thread's callbacks have been turned off.
    if (!state().tls_record_function_enabled_) return;
    for (size_t i = 0; i < kScopes.size(); ++i) {
      at::StepCallbacks& called = called_on_this_thread(i);
      // Not empty: torch has rebuilt it. If it is outdated, torch rebuilds it before its next use.
      if (called.callbacks_.empty() && called.callbacks_.data()->start_ == ours)
        called.callbacks_.set_size(1);
    }
  }

  // [under the core's mutex] Sets the recorder's current callback.
  static void registered(at::RecordFunctionCallback::StartCallback start) {
    __atomic_store_n(&ours, start, __ATOMIC_RELAXED);
  }

 private:
  static constexpr std::array kScopes = {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION};
  static constexpr size_t kSearchedBytes = 16384;

  // Operators with a schema, and autograd's nodes. Operators inside regions of compiled code, TorchScript
  // functions and annotations count as outermost; those inside a collective describe its messages.
  static bool is_operator(const at::RecordFunction& fn, const c10::FunctionSchema* schema) {
    if (schema != nullptr) return !std::string_view(schema->name()).starts_with("c10d::");
    if (fn.scope() != at::RecordScope::FUNCTION) return fn.scope() == at::RecordScope::BACKWARD_FUNCTION;
    const std::string_view name(fn.name());
    return name.starts_with("autograd::engine::") || name.starts_with("aten::");
  }

  static const at::RecordFunctionTLS& state() {
    if (this_threads == nullptr) [[unlikely]]
      this_threads = &at::get_record_function_tls_();
    return *this_threads;
  }

  static at::StepCallbacks& called_on_this_thread(size_t scope) {
    return *reinterpret_cast<at::StepCallbacks*>(reinterpret_cast<uintptr_t>(&state()) + offsets_[scope]);
  }

  // 0: not found.
  static size_t search(at::RecordScope scope, at::RecordFunctionCallback::StartCallback probe) {
    const auto begin = reinterpret_cast<uintptr_t>(&at::get_record_function_tls_());
    const SafeMemory memory;
    std::vector<char> copy(kSearchedBytes);
    const size_t readable = memory.read_part(reinterpret_cast<const void*>(begin), copy.size(), copy.data());
    for (size_t at = 8; at + sizeof(at::StepCallbacks) <= readable; at += alignof(at::StepCallbacks)) {
      auto* const candidate = reinterpret_cast<at::StepCallbacks*>(begin + at);
      const void* elements = nullptr;
      std::memcpy(&elements, copy.data() + at, sizeof(elements));
      // A small vector stores elements inside itself, so this reads no other memory.
      const uintptr_t inside = reinterpret_cast<uintptr_t>(elements) - (begin + at);
      if (inside == 0 || inside >= sizeof(at::StepCallbacks)) continue;
      if (is_list(*candidate, scope, probe) && is_used_by_torch(*candidate)) return at;
    }
    return 0;
  }

  static bool is_list(const at::StepCallbacks& candidate, at::RecordScope scope,
                      at::RecordFunctionCallback::StartCallback probe) {
    if (candidate.scope_ != scope || candidate.thread_id_ != at::RecordFunction::currentThreadId())
      return false;
    const auto& callbacks = candidate.callbacks_;
    if (callbacks.empty() || callbacks.size() > at::kSoftLimitCallbacks) return false;
    return std::any_of(callbacks.begin(), callbacks.end(),
                       [probe](const auto& one) { return one.start_ == probe; });
  }

  static bool is_used_by_torch(at::StepCallbacks& candidate) {
    const size_t size = candidate.callbacks_.size();
    candidate.callbacks_.set_size(0);
    const bool has_callbacks = at::getStepCallbacksUnlessEmpty(candidate.scope_).has_value();
    candidate.callbacks_.set_size(size);
    return !has_callbacks && at::getStepCallbacksUnlessEmpty(candidate.scope_).has_value();
  }

  static inline bool is_found_ = false;
  static inline std::array<size_t, kScopes.size()> offsets_{};
  static inline at::RecordFunctionCallback::StartCallback ours = nullptr;
  static inline thread_local const at::RecordFunctionTLS* this_threads = nullptr;
  static inline thread_local const at::RecordFunction* outermost = nullptr;
};

}  // namespace
}  // namespace opscope
