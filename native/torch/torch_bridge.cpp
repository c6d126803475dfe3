// The bridge to torch: the one source file that includes torch's headers, with the torch_*.h beside it.
//
// It is compiled on the user's machine for the installed torch and loaded next to the core. It registers
// callbacks with at::RecordFunction that append records, and redirects calls of torch's libraries that report
// memory (torch_linked_calls.h).
//
// Callbacks run on any thread at any time, even while `configure` runs. Their shared data is atomic and in
// `hot` (torch_state.h); everything else belongs to the thread's own log. The bridge is never unloaded: torch
// may call back until the process has ended.
#include <ATen/record_function.h>
#include <torch/csrc/profiler/stubs/base.h>
#include <torch/csrc/profiler/util.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>
#include <unordered_set>
#include <vector>

#include "log/core_api.h"
#include "torch/torch_arguments.h"
#include "torch/torch_held_tensors.h"
#include "torch/torch_linked_calls.h"
#include "torch/torch_locks.h"
#include "torch/torch_memory.h"
#include "torch/torch_names.h"
#include "torch/torch_outermost.h"
#include "torch/torch_profiler_questions.h"
#include "torch/torch_script.h"
#include "torch/torch_state.h"

namespace opscope {
namespace {

at::CallbackHandle callback_handle = at::INVALID_CALLBACK_HANDLE;
std::chrono::steady_clock::time_point callbacks_changed;

thread_local ThreadLog* cached_log = nullptr;

[[gnu::cold, gnu::noinline]] ThreadLog* find_thread() {
  cached_log = core->this_thread();
  if (cached_log != nullptr) core->name_thread(cached_log, at::RecordFunction::currentThreadId());
  return cached_log;
}

ThreadLog* this_thread() {
  ThreadLog* log = cached_log;
  return log != nullptr ? log : find_thread();
}

bool wants_outermost_alone(uint32_t wants) {
  return (wants & (kWantOperators | kWantInnerOperators)) == kWantOperators;
}

uint32_t wanted() { return hot.wanted.load(std::memory_order_relaxed); }

uint64_t key_of(const at::RecordFunction& fn) { return reinterpret_cast<uintptr_t>(&fn); }

// A collective's work on another thread belongs to the thread that requested it.
[[gnu::noinline]] void describe_annotation(Record& record, const ThreadLog& log,
                                           const at::RecordFunction& fn) {
  record.kind = RecordKind::kAnnotation;
  record.annotation.launch = 0;
  if (fn.threadId() != log.torch_thread_id) record.annotation.launch = static_cast<uint32_t>(fn.threadId());
  if (fn.isAsync()) record.annotation.launch |= kAsynchronous;
}

template <bool kInputs>
[[gnu::hot]] std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  const uint32_t wants = wanted();
  ThreadLog* const log = this_thread();
  if (wants == 0 || log == nullptr) [[unlikely]] {
    if (wants != 0) core->lost_at_thread_end(/*is_memory*/ false);
    return nullptr;
  }
  // Before the span opens: the open spans show whether Python calls it directly.
  const bool may_have_place = (wants & kWantCalls) != 0 || log->graphs_running != 0;
  const uint32_t place_in_python = may_have_place ? core->place_in_python(log) : 0;
  Record* const record = log->open_span(key_of(fn));
  if (record == nullptr) [[unlikely]]
    return nullptr;
  const at::RecordScope scope = fn.scope();
  record->kind = RecordKind::kOperator;
  record->scope = static_cast<uint8_t>(scope);
  record->op.sequence_number = fn.seqNr();
  record->op.inputs = kNoArena;
  record->op.place = place_in_python;
  record->op.forward_thread = static_cast<uint32_t>(fn.forwardThreadId());
  const c10::FunctionSchema* const schema = schema_of(fn);
  ScriptPlace place;
  if ((wants & (kWantCalls | kWantModules)) != 0) [[unlikely]]
    place = script_place(*log, scope, wants);
  record->op.name = name_of(*log, fn, schema, (wants & kWantOverloads) != 0);
  if (fn.isNcclMeta()) [[unlikely]] {
    record->op.inputs = put_collective<kInputs>(*log, fn);
  } else if constexpr (kInputs) {
    // Reading keyword arguments copies a map.
    record->op.inputs = may_have_keywords(fn, schema) ? put_with_keywords(log->arena(), fn)
                                                      : put_positional(log->arena(), fn.inputs());
  }
  if (scope == at::RecordScope::USER_SCOPE) [[unlikely]]
    describe_annotation(*record, *log, fn);
  record->ticks = now_ticks();  // last, so that the span excludes this recording
  log->publish_span();
  if (place.is_known()) [[unlikely]]
    append_script_place(*log, place);
  if (wants_outermost_alone(wants)) [[unlikely]]
    InnerOperators::leave_out(fn, schema);
  return nullptr;
}

template <bool kOutputs>
[[gnu::hot]] void on_end(const at::RecordFunction& fn, at::ObserverContext*) {
  const uint64_t ticks = now_ticks();
  ThreadLog* const log = this_thread();
  if (log == nullptr) [[unlikely]]
    return;
  if constexpr (kOutputs) {
    Record* record = log->append_results(key_of(fn));
    if (record != nullptr) {
      record->ticks = ticks;
      const std::vector<c10::IValue>& outputs = fn.outputs();
      record->results.values = put_positional(log->arena(), Positional(outputs.data(), outputs.size()));
      log->publish();
    }
  }
  // torch does not report how an operator ended, but when an exception ends one it is in flight.
  const SpanState how = std::uncaught_exceptions() == 0 ? SpanState::kClosed : SpanState::kRaised;
  log->close_span(key_of(fn), ticks, EndOf::kSpan, how);
  if (wants_outermost_alone(wanted())) [[unlikely]]
    InnerOperators::ended(fn);  // torch has rebuilt its list if more is wanted since then
}

const std::vector<LinkedCall>& linked_calls() {
  static const auto* const calls = new std::vector<LinkedCall>{
      {"_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm", reinterpret_cast<void*>(&on_allocated), false},
      {"_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv", reinterpret_cast<void*>(&on_freed), false},
      {"_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm", reinterpret_cast<void*>(&on_cpu_out_of_memory),
       false},
      {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", reinterpret_cast<void*>(&on_memory), false},
      {"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", reinterpret_cast<void*>(&on_out_of_memory),
       false},
      {kGetState, reinterpret_cast<void*>(&get_state), true},
      {"_ZN5torch8profiler4impl15profilerEnabledEv", reinterpret_cast<void*>(&is_profiler_enabled), true},
      {"_ZN5torch8profiler4impl17getProfilerConfigEv", reinterpret_cast<void*>(&get_profiler_config), true},
  };
  return *calls;
}

// Whether torch's calls for allocation and free of CPU memory and for _RecordFunctionFast are redirected.
bool observes_profiler_calls() {
  return LinkedCalls::is_found(0) && LinkedCalls::is_found(1) && LinkedCalls::is_found(5);
}

void forget_thread() {
  cached_log = nullptr;
  HeldTensors::forget_thread();
}

// Scopes to request from torch: those of torch.profiler, except the ones that only builds of torch with
// selected operators emit. Each scope costs time whenever a thread takes over another's thread-local state,
// as autograd's workers do for every backward pass.
std::unordered_set<at::RecordScope> scopes_of(uint32_t wants) {
  using Scope = at::RecordScope;
  if ((wants & kWantOperators) == 0) return {Scope::USER_SCOPE};
  return {Scope::FUNCTION,   Scope::BACKWARD_FUNCTION, Scope::TORCHSCRIPT_FUNCTION, Scope::LITE_INTERPRETER,
          Scope::USER_SCOPE, Scope::STATIC_RUNTIME_OP, Scope::STATIC_RUNTIME_MODEL};
}

at::RecordFunctionCallback callback_for(uint32_t wants) {
  const bool inputs = (wants & kWantInputs) != 0;
  const bool outputs = (wants & kWantOutputs) != 0;
  at::RecordFunctionCallback callback(inputs ? &on_start<true> : &on_start<false>,
                                      outputs ? &on_end<true> : &on_end<false>);
  callback.needsInputs(inputs).needsOutputs(outputs);
  callback.scopes(scopes_of(wants));
  return callback;
}

void listen(uint32_t wants) {
  InnerOperators::registered((wants & kWantInputs) != 0 ? &on_start<true> : &on_start<false>);
  const bool is_wanted = (wants & (kWantOperators | kWantAnnotations)) != 0;
  const bool was_registered = callback_handle != at::INVALID_CALLBACK_HANDLE;
  if (is_wanted && was_registered && CallbackList::replace(callback_handle, callback_for(wants))) return;
  if (was_registered) at::removeCallback(callback_handle);
  callback_handle = at::INVALID_CALLBACK_HANDLE;
  if (!is_wanted) return;
  callback_handle = at::addGlobalCallback(callback_for(wants));
  CallbackList::find(callback_handle);
}

// Before anything is recorded; callbacks registered in between have no effect.
void find_inner_operators() {
  static constexpr auto kProbe = [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
    return nullptr;
  };
  at::RecordFunctionCallback probe(kProbe);
  probe.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
  const at::CallbackHandle handle = at::addGlobalCallback(probe);
  InnerOperators::find(kProbe);
  at::removeCallback(handle);
}

bool configure(uint32_t wants, char* message, size_t message_bytes) {
  try {
    OperatorGenerations::watch();
    LinkedCalls::redirect(linked_calls());
    listen(wants);
    receives_spans.store(callback_handle != at::INVALID_CALLBACK_HANDLE);
    callbacks_changed = std::chrono::steady_clock::now();
    return true;
  } catch (const std::exception& error) {
    std::snprintf(message, message_bytes, "torch refused opscope's callbacks: %s", error.what());
    return false;
  }
}

// Fork with a torch whose lock on its list of callbacks was not found and so cannot be held. A thread takes
// that lock once after the list has changed, at its next operator. So the fork waits until a millisecond
// after the last change, takes the lock once itself (which waits for a holder), and updates the forking
// thread's copy of the list, so that the child need not.
void wait_for_callbacks() {
  std::this_thread::sleep_until(callbacks_changed + std::chrono::milliseconds(1));
  at::hasGlobalCallbacks();
  at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
}

void before_fork() {
  if (std::mutex* const list = CallbackList::lock(); list != nullptr) {
    list->lock();
  } else {
    wait_for_callbacks();
  }
  BlockSizes::lock_all();
  HeldTensors::mutex().lock();
}

void after_fork(bool in_child) {
  HeldTensors::mutex().unlock();
  BlockSizes::unlock_all();
  if (std::mutex* const list = CallbackList::lock(); list != nullptr) list->unlock();
  if (in_child) HeldTensors::leave_to_parent();
}

const BridgeApi bridge = {kCoreApiVersion,
                          OPSCOPE_TORCH_VERSION,
                          &hot.wanted,
                          &configure,
                          &DropInProfilerState::show,
                          &forget_thread,
                          &before_fork,
                          &after_fork,
                          [] { return CallbackList::lock() == nullptr; },
                          &unknown_frees,
                          [](bool wanted) { hot.holding.store(wanted); },
                          &HeldTensors::release_all,
                          &HeldTensors::mark,
                          &HeldTensors::release_before,
                          &HeldTensors::held_bytes,
                          &HeldTensors::not_held,
                          &HeldTensors::set_budget,
                          &InnerOperators::is_found,
                          &observes_profiler_calls};

}  // namespace
}  // namespace opscope

extern "C" __attribute__((visibility("default"))) const opscope::BridgeApi* opscope_attach(
    const opscope::CoreApi* core_api) {
  if (core_api->version != opscope::kCoreApiVersion) return nullptr;
  opscope::core = core_api;
  opscope::CallbackList::find();
  opscope::find_inner_operators();
  return &opscope::bridge;
}
