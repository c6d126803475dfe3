// The bridge to torch: the one source file that, with the torch_*.h beside it, includes torch's headers.
// It is compiled on the user's machine against the torch that is installed there, loaded next to the core,
// and does two things: it registers callbacks with at::RecordFunction that append records, and it puts an
// object into the thread-local slot through which torch reports memory.
//
// Callbacks run on every thread of the program at any time, also while `configure` changes what is wanted.
// What they share is in `hot` (torch_state.h) and atomic; everything else they touch is the thread's own log.
// The bridge is never unloaded: torch may call back until the process has ended.
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>
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
#include "torch/torch_locks.h"
#include "torch/torch_names.h"
#include "torch/torch_outermost.h"
#include "torch/torch_ranges.h"
#include "torch/torch_script.h"
#include "torch/torch_state.h"

// Declared here: its header, autograd's own, makes compiling this a tenth longer.
namespace torch::autograd {
TORCH_API int get_current_graph_task_id();  // -1 outside backward passes
}

namespace opscope {
namespace {

using torch::profiler::impl::ActiveProfilerType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;
using torch::profiler::impl::ProfilerStateBase;

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

// ---- Callbacks -----------------------------------------------------------------------------

uint64_t key_of(const at::RecordFunction& fn) { return reinterpret_cast<uintptr_t>(&fn); }

// Read through ThreadLocalDebugInfo: ProfilerStateBase's own accessor was renamed in torch 2.14.
c10::DebugInfoBase* in_slot() { return c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE); }

void enter(ThreadLog& log, uint32_t wants);

// Whether torch reports allocations of this thread, and compiled regions, to us. Our object is put into the
// thread's slot at the thread's first span, and again at the next operator after the thread's local state was
// replaced, as autograd does on its workers for every backward pass and pools do for every task.
bool is_entered(const ThreadLog& log) { return log.source_state != kUnheard && in_slot() == hot.reporter; }

// Work that a collective hands to another thread belongs to the thread that asked for it.
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
  if (!is_entered(*log)) [[unlikely]]
    enter(*log, wants);
  // Before the span opens, because what is open says whether Python calls it directly.
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
  record->ticks = now_ticks();  // last: what is recorded above is not part of the span
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
  // torch says nothing of how an operator ended, but one that an exception leaves ends while that is in
  // flight.
  const SpanState how = std::uncaught_exceptions() == 0 ? SpanState::kClosed : SpanState::kRaised;
  log->close_span(key_of(fn), ticks, EndOf::kSpan, how);
  if (wants_outermost_alone(wanted())) [[unlikely]]
    InnerOperators::ended(fn);  // where more is wanted meanwhile, torch has made its list anew
}

// ---- Memory and compiled regions -----------------------------------------------------------

// torch reports memory only to the object in a thread's PROFILER_STATE slot, and compiled regions
// emit spans only while that slot is filled. torch casts whatever is there to ProfilerStateBase.
class Reporter final : public ProfilerStateBase {
 public:
  Reporter() : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled)) {}

  ActiveProfilerType profilerType() override {
    return config_.state == ProfilerState::Disabled ? ActiveProfilerType::NONE : ActiveProfilerType::KINETO;
  }
  // NVTX is the state for which torch neither casts us to its own class nor expects Kineto.
  void enable(uint32_t wants) {
    const bool enabled = wants != 0 || range_handle != at::INVALID_CALLBACK_HANDLE;
    config_.state = enabled ? ProfilerState::NVTX : ProfilerState::Disabled;
    config_.profile_memory = (wants & kWantMemory) != 0;
    config_.report_input_shapes = (wants & kWantInputs) != 0;  // _RecordFunctionFast asks
  }
  bool memoryProfilingEnabled() const override { return (wanted() & kWantMemory) != 0; }

  void reportMemoryUsage(void* address, int64_t size_bytes, size_t total_allocated, size_t total_reserved,
                         c10::Device device) override {
    append(size_bytes >= 0 ? RecordKind::kAllocate : RecordKind::kFree, address, size_bytes, total_allocated,
           total_reserved, device);
  }
  void reportOutOfMemory(int64_t size_bytes, size_t total_allocated, size_t total_reserved,
                         c10::Device device) override {
    append(RecordKind::kOutOfMemory, nullptr, size_bytes, total_allocated, total_reserved, device);
  }

 private:
  static void append(RecordKind kind, void* address, int64_t size_bytes, size_t total_allocated,
                     size_t total_reserved, c10::Device device) {
    if ((wanted() & kWantMemory) == 0) return;
    ThreadLog* log = this_thread();
    if (log == nullptr) return core->lost_at_thread_end(/*is_memory*/ true);
    Record* record = log->append(kind);
    if (record == nullptr) return;
    record->memory = {reinterpret_cast<uintptr_t>(address), size_bytes,    total_allocated, kNoArena,
                      static_cast<int8_t>(device.type()),   device.index()};
    if (total_reserved != 0 && log->arena().begin()) {
      if (uint64_t* word = log->arena().reserve(1); word != nullptr) {
        *word = total_reserved;
        log->arena().advance(1);
        record->memory.reserved = log->arena().commit();
      }
    }
    record->ticks = now_ticks();
    log->publish();
  }
};

// One for the process: threads inherit the slot's content from whoever started their work.
const std::shared_ptr<Reporter>& reporter() {
  static const auto* instance = new std::shared_ptr<Reporter>(std::make_shared<Reporter>());
  return *instance;
}

// Puts our object into this thread's slot. Where torch's own profiler has the slot, memory is reported to
// it alone, and what we miss is counted.
[[gnu::noinline]] void enter(ThreadLog& log, uint32_t wants) {
  if (in_slot() == nullptr) c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, reporter());
  const bool heard = in_slot() == hot.reporter;
  const bool in_backward = torch::autograd::get_current_graph_task_id() != -1;
  log.source_state = !heard ? kUnheard : in_backward ? kHeardInBackward : kHeard;
  if (!heard && (wants & kWantMemory) != 0) log.count_unheard();
}

void enter_thread() {
  if (ThreadLog* log = this_thread(); log != nullptr) enter(*log, wanted());
}

// Takes us out of the slot again, if nothing was pushed on top since. Where that cannot be done (a
// thread other than the one stopping) the object stays and answers "disabled".
void leave_thread() {
  if (cached_log != nullptr) cached_log->source_state = kUnheard;
  if (in_slot() != reporter().get()) return;
  try {
    c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  } catch (const std::exception&) {
  }
}

void forget_thread() {
  cached_log = nullptr;
  HeldTensors::forget_thread();
}

// ---- What the core calls -------------------------------------------------------------------

// The scopes to ask torch for: those that torch.profiler asks for but the ones that only builds of torch with
// selected operators emit. Every scope asked for costs time whenever a thread takes over the thread-local
// state of another, as autograd's workers do for every backward pass.
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

// Before anything is recorded; what is registered meanwhile does nothing.
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
    reporter()->enable(wants);
    listen(wants);
    callbacks_changed = std::chrono::steady_clock::now();
    return true;
  } catch (const std::exception& error) {
    std::snprintf(message, message_bytes, "torch refused opscope's callbacks: %s", error.what());
    return false;
  }
}

// For a torch whose lock on its list of callbacks was not found, so that it cannot be held across the fork.
// A thread takes that lock once after the list has changed, at its next operator. So the fork waits a
// millisecond after the last change, then takes the lock once itself (which waits for a thread that holds
// it), and brings the forking thread's own copy of the list up to date, so that the child need not.
void wait_for_callbacks() {
  std::this_thread::sleep_until(callbacks_changed + std::chrono::milliseconds(1));
  at::hasGlobalCallbacks();
  at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
}

void before_fork() {
  if (!ForkLocks::has_all()) wait_for_callbacks();
  ForkLocks::lock();
  HeldTensors::mutex().lock();
  producers().mutex().lock();
}

void after_fork(bool in_child) {
  producers().mutex().unlock();
  HeldTensors::mutex().unlock();
  ForkLocks::unlock();
  if (in_child) HeldTensors::leave_to_parent();
}

void start_ranges(const RangeSink* sink, bool with_ids, bool with_shapes) {
  emit_ranges(sink, with_ids, with_shapes);
  reporter()->enable(wanted());
}

// Median over rounds, because one interrupted round would spoil a mean.
double time_spans(bool empty_callback) {
  constexpr int kRounds = 9;
  constexpr int kSpans = 512;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  if (empty_callback) {
    handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> { return nullptr; },
        [](const at::RecordFunction&, at::ObserverContext*) {}));
  }
  std::vector<int64_t> elapsed_ns;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < kSpans; ++i) {
      at::RecordFunction guard(at::RecordScope::FUNCTION);
      if (guard.isActive()) guard.before("opscope::calibration");
    }
    elapsed_ns.push_back(clock_ns(CLOCK_MONOTONIC) - start_ns);
  }
  if (empty_callback) at::removeCallback(handle);
  std::nth_element(elapsed_ns.begin(), elapsed_ns.begin() + kRounds / 2, elapsed_ns.end());
  return static_cast<double>(elapsed_ns[kRounds / 2]) / kSpans;
}

double time_cold_spans() {
  constexpr int kSpans = 32;
  constexpr size_t kCacheBytes = size_t{4} << 20;
  std::vector<uint64_t> other(kCacheBytes / sizeof(uint64_t), 1);
  std::vector<int64_t> elapsed_ns;
  for (int i = 0; i < kSpans; ++i) {
    for (size_t at = 0; at < other.size(); at += 64 / sizeof(uint64_t)) other[at] += at;
    const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    {
      at::RecordFunction guard(at::RecordScope::FUNCTION);
      if (guard.isActive()) guard.before("opscope::calibration");
    }
    elapsed_ns.push_back(clock_ns(CLOCK_MONOTONIC) - start_ns);
  }
  std::nth_element(elapsed_ns.begin(), elapsed_ns.begin() + kSpans / 2, elapsed_ns.end());
  return static_cast<double>(elapsed_ns[kSpans / 2]);
}

const BridgeApi bridge = {kCoreApiVersion,
                          OPSCOPE_TORCH_VERSION,
                          &hot.wanted,
                          &configure,
                          &enter_thread,
                          &leave_thread,
                          &forget_thread,
                          &before_fork,
                          &after_fork,
                          [] { return !ForkLocks::has_all(); },
                          &unknown_frees,
                          &time_spans,
                          &time_cold_spans,
                          [](bool wanted) { hot.holding.store(wanted); },
                          &HeldTensors::release_all,
                          &HeldTensors::mark,
                          &HeldTensors::release_before,
                          &HeldTensors::held_bytes,
                          &HeldTensors::not_held,
                          &HeldTensors::set_budget,
                          &start_ranges,
                          &itt_ranges,
                          &InnerOperators::is_found};

}  // namespace
}  // namespace opscope

extern "C" __attribute__((visibility("default"))) const opscope::BridgeApi* opscope_attach(
    const opscope::CoreApi* core_api) {
  if (core_api->version != opscope::kCoreApiVersion) return nullptr;
  opscope::core = core_api;
  opscope::hot.reporter = opscope::reporter().get();
  opscope::CallbackList::find();
  opscope::find_inner_operators();
  return &opscope::bridge;
}
