// Handlers of call events; the hooks call them.
#include "python/python_calls.h"

#include <algorithm>
#include <memory>
#include <new>
#include <unordered_set>
#include <utility>

#include "log/clock.h"
#include "log/core_api.h"
#include "python/c_function_names.h"
#include "python/compiled_code.h"
#include "python/python_hooks.h"
#include "python/python_parameters.h"
#include "python/python_running_threads.h"
#include "python/python_thread_cache.h"

namespace opscope {

namespace {

uint64_t address_key(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// Slot of this code in a thread's cache. The cache may be const.
template <typename Cache>
auto& slot_in(Cache& codes, const PyCodeObject* code) {
  return codes[(address_key(code) >> 5) % codes.size()];
}

uint64_t c_key(const void* callable) { return address_key(callable) | kWatchedCall | 1; }

// Keys of this frame and of all frames around it, the outermost first.
std::vector<uint64_t> keys_from(RunningFrame frame) {
  std::vector<uint64_t> keys;
  for (; frame; frame = frame.caller()) keys.push_back(key_of(frame, frame.code()));
  std::reverse(keys.begin(), keys.end());
  return keys;
}

// Stacks may be too deep for a linear search per key.
std::unordered_set<uint64_t> set_of(const std::vector<uint64_t>& keys) { return {keys.begin(), keys.end()}; }

// For each open span, the outermost first: whether the Python function in which it began still runs.
std::vector<bool> has_running_caller(const OpenSpans& open, const std::unordered_set<uint64_t>& running) {
  std::vector<bool> found;
  bool runs = true;
  for (size_t i = 0; i < open.size(); ++i) {
    found.push_back(runs);
    if (is_watched_call(open[i].key)) runs = running.contains(open[i].key);
  }
  return found;
}

// Closes spans whose ends were not reported while the hooks were removed; runs at a thread's first event
// after they are installed again.
//
// A Python call still runs if its frame is on the stack. C functions have no frame: a C call counts as
// running if its caller and one of its callees run. Closed spans ended between the removal of the hooks and
// `ticks`, the time of the event. With `have_ceased` all are over: recording of calls ceased in between.
[[gnu::noinline]] void catch_up(PythonThreadCache& cache, RunningFrame frame, uint64_t ticks,
                                bool have_ceased) {
  cache.installation = PythonCalls::installation();
  cache.hidden = hidden_since(cache, frame);
  if (cache.log.depth() == 0) return;
  const uint64_t removed = PythonCalls::removed_ticks();
  if (removed != 0) ticks = std::min(ticks, removed);
  if (have_ceased) return cache.log.end_spans(ticks, is_watched_call);
  const std::unordered_set<uint64_t> running = set_of(keys_from(frame));
  const std::vector<bool> caller_runs = has_running_caller(cache.log.open(), running);
  size_t at = caller_runs.size();
  bool has_running_callee = false;
  cache.log.leave_spans(ticks, [&](uint64_t key, const Record& record) {
    --at;
    if (record.kind == RecordKind::kCCall) return !has_running_callee || !caller_runs[at];
    if (!is_watched_call(key)) {
      // Hooks do not report operators and collections: open ones still run, and so do the calls around them.
      has_running_callee |= record.kind == RecordKind::kOperator || record.kind == RecordKind::kGcPause;
      return false;
    }
    const bool is_running = running.contains(key);
    has_running_callee |= is_running;
    return !is_running;
  });
}

// Ends at `ticks` all noted running functions except the outermost `still`.
void end_earlier_calls(PythonThreadCache& cache, size_t still, uint64_t ticks) {
  for (std::vector<uint64_t>& ran = cache.earlier_calls; ran.size() > still; ran.pop_back()) {
    if (cache.hidden == ran.back()) cache.hidden = 0;
    cache.log.close_if_begun(ran.back(), ticks);
    cache.log.append_late_end(ran.back(), ticks, cache.log.native_thread);
  }
}

// Ends at `ticks` the noted running functions that are no longer around `frame`, the innermost running one.
void notice_ends(PythonThreadCache& cache, RunningFrame frame, uint64_t ticks) {
  std::vector<uint64_t>& ran = cache.earlier_calls;
  const uint64_t innermost = frame ? key_of(frame, frame.code()) : 0;
  if (ran.empty() || ran.back() == innermost) return;
  size_t still = static_cast<size_t>(std::find(ran.rbegin(), ran.rend(), innermost).base() - ran.begin());
  if (still == 0 && frame) {  // no hook reported this function
    const std::unordered_set<uint64_t> running = set_of(keys_from(frame));
    still = ran.size();
    while (still > 0 && !running.contains(ran[still - 1])) --still;
  }
  end_earlier_calls(cache, still, ticks);
}

// [owner of the cache] The same when an operator is called, without the GIL. The caller is a function that
// ran before, or an unreported function that it called. A program may do nothing else after its imports.
void notice_ends_at_operator(PythonThreadCache& cache, RunningFrame frame) {
  const std::vector<uint64_t>& ran = cache.earlier_calls;
  if (cache.evaluating != 0 || ran.empty()) return;
  const uint64_t innermost = key_of(frame, frame.code());
  if (ran.back() == innermost) return;
  const auto still = std::find(ran.rbegin(), ran.rend(), innermost);
  if (still != ran.rend()) end_earlier_calls(cache, static_cast<size_t>(ran.rend() - still), now_ticks());
}

// Notes the end of one evaluated function: one evaluated since `earlier_calls` was noted, or one in it.
void note_evaluated(PythonThreadCache& cache, PyThreadState* state, uint64_t ticks = 0) {
  if (cache.evaluating != 0) [[likely]] {
    --cache.evaluating;
  } else {  // hooks may have missed ends of its callees
    notice_ends(cache, RunningFrame::current(state), ticks != 0 ? ticks : now_ticks());
  }
}

// Ends functions that windows noted as running on this thread and that are over. Evaluation hooks report no
// such ends, even if all calls are reported by now.
void note_running_calls(PythonThreadCache& cache, RunningFrame frame, uint64_t ticks,
                        uint64_t last_generation) {
  notice_ends(cache, frame, ticks);
  cache.earlier_calls = keys_from(frame);
  cache.evaluating = 0;
  const std::unordered_set<uint64_t> running = set_of(cache.earlier_calls);
  for (const uint64_t key : Recorder::instance().initial_frames(cache.log, last_generation)) {
    if (is_watched_call(key) && !running.contains(key))
      cache.log.append_late_end(key, ticks, cache.log.native_thread);
  }
}

// Begins spans of functions that began while no calls were reported and that no window noted as running.
// Those that a window noted before calls ceased to be recorded have ended. The function whose call is
// reported now is not among `earlier_calls`: the report begins its span.
void begin_running_calls(PythonThreadCache& cache) {
  FrameTable& frames = PythonCalls::instance().frames;
  const std::unordered_set<uint64_t> known =
      set_of(Recorder::instance().initial_frames(cache.log, PythonCalls::ceased()));
  const std::unordered_set<uint64_t> earlier = set_of(cache.earlier_calls);
  const RunningThreads threads;
  for (const SeenThread& thread : threads.seen()) {
    if (thread.native_thread != cache.log.native_thread) continue;
    for (const InitialFrame& frame : stack_of(thread, frames, &cache.log).frames) {
      const CallPart& call = frame.span.call;
      if (!earlier.contains(frame.key()) || known.contains(frame.key())) continue;
      if (frame.may_begin || cache.log.is_open(frame.key())) continue;
      begin_call(cache.log, {frame.span.kind, frame.key(), call.function, call.caller_offset});
    }
  }
}

// Handles the first event after hooks were installed or a window noted the running functions.
[[gnu::noinline]] void begin_generation(PythonThreadCache& cache, RunningFrame frame, uint64_t ticks) {
  const uint64_t last_generation = std::exchange(cache.generation, PythonCalls::generation());
  Recorder& recorder = Recorder::instance();
  if (cache.installation != PythonCalls::installation()) {
    cache.may_begin.clear();
    catch_up(cache, frame, ticks, last_generation <= PythonCalls::ceased());
  }
  note_running_calls(cache, frame, ticks, last_generation);
  for (const uint64_t key : recorder.frames_that_may_begin(cache.log, last_generation)) {
    if (std::erase(cache.may_begin, key) == 0) cache.has_frames_that_may_begin = true;
    cache.may_begin.push_back(key);
  }
  if (last_generation < PythonCalls::resumed()) begin_running_calls(cache);
}

// Decides whether a function was running before the window. Python may switch threads between creating a
// frame and reporting its call, so a window that opens then notes the frame as running. If the first event of
// the frame is its call (`begins`), it was not running.
[[gnu::noinline]] void settle(PythonThreadCache& cache, uint64_t key, bool begins) {
  if (std::erase(cache.may_begin, key) == 0) return;
  if (begins) Recorder::instance().forget_initial_frame(cache.log, key);
  cache.has_frames_that_may_begin = !cache.may_begin.empty();
}

// Reading an instance runs Python, so other threads may open windows, which note this call as running
// although it is about to be recorded.
void resolve_may_begin_again(PythonThreadCache& cache, RunningFrame caller, uint64_t key) {
  if (cache.generation != PythonCalls::generation()) begin_generation(cache, caller, now_ticks());
  if (cache.has_frames_that_may_begin) settle(cache, key, /*begins=*/true);
}

bool is_of(const OpenSpan* span, const RunningFrame& frame, const PyCodeObject* code) {
  return span != nullptr && span->key == key_of(frame, code);
}

// Instruction of the innermost recorded function from `frame` outwards: the parent of the span that begins.
int32_t instruction_of(PythonThreadCache& cache, RunningFrame frame) {
  if (FrameTable::skips_libraries()) [[unlikely]] {
    const OpenSpan* const around = cache.log.innermost_but_annotations();
    while (frame && frame_of(cache, frame.code()) == kSkippedFrame && !is_of(around, frame, frame.code()))
      frame = frame.caller();
  }
  return frame ? frame.instruction() : -1;
}

// Reads the module from the frame, as the function's first argument. The replaced vectorcall has it too, but
// on Python 3.11 direct calls such as super().__call__(x) bypass the vectorcall.
void enter_module(PythonThreadCache& cache, RunningFrame frame, RunningFrame caller, uint64_t key) {
  PyObject* self = frame.first_argument();
  if (self == nullptr) return;
  if (cache.module_call != PythonThreadCache::ModuleCall{self, caller.address()}) [[likely]] {
    PythonCalls& python = PythonCalls::instance();
    const uint32_t row = row_of_instance(python.modules, self, /*is_module=*/true);
    resolve_may_begin_again(cache, caller, key);
    begin_call(cache.log, {RecordKind::kModuleCall, key, python.frames.module_row(),
                           instruction_of(cache, caller), row});
  }
  Py_DECREF(self);
}

void enter_optimizer(PythonThreadCache& cache, RunningFrame frame, RunningFrame caller, uint64_t key) {
  PyObject* self = frame.first_argument();
  if (self == nullptr) return;
  PythonCalls& python = PythonCalls::instance();
  const uint32_t row = row_of_instance(python.optimizers, self, /*is_module=*/false);
  resolve_may_begin_again(cache, caller, key);
  begin_call(cache.log, {RecordKind::kOptimizerCall, key, python.frames.optimizer_row(),
                         instruction_of(cache, caller), row});
  cache.stepped = self;  // its hook runs next, or if a window that wants modules opens before
  const bool has_hook = (Recorder::instance().wanted() & kWantModules) != 0;
  cache.stepped_spell = has_hook ? kAnySpell : PythonCalls::spell();
  Py_DECREF(self);
}

// This thread's cache, up to date; nullptr if the thread is ending or opscope's own code makes the call.
// `ticks`: time of the event if already read.
PythonThreadCache* begin_event(RunningFrame frame, uint64_t ticks = 0) {
  PythonThreadCache* cache = PythonThreadCache::get();
  if (cache == nullptr || cache->busy) [[unlikely]]
    return nullptr;
  if (cache->generation != PythonCalls::generation()) [[unlikely]]
    begin_generation(*cache, frame, ticks != 0 ? ticks : now_ticks());
  return cache;
}

// False: the innermost span has another key.
bool close_top(PythonThreadCache& cache, uint64_t key, uint64_t ticks) {
  if (!cache.log.is_top(key)) [[unlikely]]
    return false;
  const bool is_in_two_windows = cache.log.top_start() < PythonCalls::overlap_ticks();
  cache.log.close_span(key, ticks);
  if (is_in_two_windows) [[unlikely]]
    cache.log.note_end(key, ticks);
  return true;
}

}  // namespace

void catch_up_now(PythonThreadCache& cache) {
  if (cache.generation != PythonCalls::generation())
    begin_generation(cache, RunningFrame::current(PyThreadState_Get()), now_ticks());
}

// Whether the cache knows this code as skipped; reads no Python object.
static bool is_known_as_skipped(const PythonThreadCache* cache, PyCodeObject* code) {
  if (!FrameTable::skips_libraries() || cache == nullptr) return false;
  const PythonThreadCache::Code& slot = slot_in(cache->codes, code);
  return slot.code == code && slot.id == kSkippedFrame;
}

uint32_t place_in_python(const ThreadLog* log) {
  const OpenSpan* const around = log->innermost_but_annotations();
  if (around != nullptr && around->record->kind == RecordKind::kCompiledGraph) {
    return place_in_generated_code(around->key);
  }
  if ((Recorder::instance().wanted() & kWantCalls) == 0) return 0;
  if (around != nullptr && (!is_python(around->record->kind) || around->record->kind == RecordKind::kCCall)) {
    return 0;
  }
  PythonThreadCache* const cache = PythonThreadCache::existing();
  if (cache != nullptr && cache->busy) return 0;
  PyThreadState* const state = PyGILState_GetThisThreadState();
  if (state == nullptr) return 0;
  RunningFrame frame = RunningFrame::current_without_gil(state);
  if (cache != nullptr && frame) notice_ends_at_operator(*cache, frame);
  if (cache != nullptr && cache->hidden != 0) return 0;
  while (frame && is_known_as_skipped(cache, frame.code()) && !is_of(around, frame, frame.code())) {
    frame = frame.caller();
  }
  if (!frame) return 0;
  // A function without a call around it has run since before the recording. So has a function inside a call
  // that only an earlier window recorded. The window has noted both as running.
  if (around != nullptr && around->key != key_of(frame, frame.code()) &&
      around->record->ticks >= PythonCalls::overlap_ticks()) {
    return 0;
  }
  return static_cast<uint32_t>(std::max(frame.instruction(), -1) + 1);
}

// Destroys a thread's cache when the thread ends. The pointer to the cache is a separate variable: a
// trivially destructible one is readable even after that.
struct PythonThreadCacheOwner {
  ~PythonThreadCacheOwner() {
    PythonThreadCache* cache = PythonThreadCache::this_cache_;
    PythonThreadCache::this_cache_ = nullptr;
    PythonThreadCache::torn_down_ = true;
    delete cache;
  }
};

PythonThreadCache* PythonThreadCache::make() {
  ThreadLog* log = Recorder::this_thread();
  if (log == nullptr || torn_down_) return nullptr;
  thread_local PythonThreadCacheOwner owner;  // declared after the log's owner, so it is destroyed first
  (void)&owner;                               // first use constructs it, which registers its destructor
  this_cache_ = new (std::nothrow) PythonThreadCache(*log);
  if (this_cache_ == nullptr) Recorder::instance().set_fault("out of memory");
  return this_cache_;
}

uint64_t hidden_since(PythonThreadCache& cache, RunningFrame frame) {
  uint64_t key = 0;
  for (; frame; frame = frame.caller()) {
    const uint32_t id = frame_of(cache, frame.code());
    if (id == kProgramFrame) break;
    if (id == kHiddenFrame) key = key_of(frame, frame.code());
  }
  return key;
}

// `kReadsThreadName`: also reads the thread's name. This comes first, because it may let other threads empty
// the table.
template <bool kReadsThreadName>
static uint32_t row_in(PythonThreadCache& cache, PyCodeObject* code) {
  FrameTable& frames = PythonCalls::instance().frames;
  if (kReadsThreadName && cache.name_reads_left != 0 && slot_in(cache.codes, code).code != code) [[unlikely]]
    cache.name_reads_left = Recorder::instance().read_program_name(cache.log) ? 0 : cache.name_reads_left - 1;
  if (cache.epoch != frames.epoch()) [[unlikely]] {
    cache.codes.fill({});
    cache.called_codes.fill({});
    cache.functions.fill({});
    cache.epoch = frames.epoch();
  }
  PythonThreadCache::Code& slot = slot_in(cache.codes, code);
  if (slot.code != code) slot = {code, frames.intern(code)};
  return slot.id;
}

uint32_t frame_of(PythonThreadCache& cache, PyCodeObject* code) { return row_in<false>(cache, code); }

// Library functions that the program itself calls are recorded: their caller is a line of the program.
uint32_t frame_of_call(PythonThreadCache& cache, PyCodeObject* code, RunningFrame caller) {
  const uint32_t id = row_in<true>(cache, code);
  if (id != kSkippedFrame || !caller) return id;
  FrameTable& frames = PythonCalls::instance().frames;
  const uint32_t by = frame_of(cache, caller.code());
  if (by >= kFirstSpecialFrame || !frames.is_of_program(by)) return id;
  PythonThreadCache::Code& slot = slot_in(cache.called_codes, code);
  if (slot.code != code) slot = {code, frames.intern_called(code)};
  return slot.id;
}

bool is_skipped(PyCodeObject* code) {
  if (!FrameTable::skips_libraries()) [[likely]]
    return false;
  PythonThreadCache* const cache = PythonThreadCache::get();
  return cache != nullptr && row_in<true>(*cache, code) == kSkippedFrame;
}

void python_enter(PyCodeObject* code, RunningFrame frame, RunningFrame caller) {
  const uint64_t key = key_of(frame, code);
  PythonThreadCache* cache = begin_event(caller);
  if (cache == nullptr) return;
  if (cache->has_frames_that_may_begin) [[unlikely]]
    settle(*cache, key, /*begins=*/true);
  const uint32_t id = frame_of_call(*cache, code, caller);
  if (id < kFirstSpecialFrame && cache->hidden == 0) [[likely]] {
    return begin_call(cache->log, {RecordKind::kPythonCall, key, id, instruction_of(*cache, caller)});
  }
  if (id == kHiddenFrame && cache->hidden == 0) cache->hidden = key;
  if (id == kProgramFrame) cache->hidden = 0;
  if (cache->hidden != 0 || id == kProgramFrame) return;
  // Reading an instance lets other threads run. If one of them enables all calls, this call is reported
  // twice: by the evaluation hook and again when its frame begins.
  if (cache->log.is_top(key)) return;
  if (id == kModuleFrame) enter_module(*cache, frame, caller, key);
  if (id == kOptimizerFrame) enter_optimizer(*cache, frame, caller, key);
}

void python_enter_if_new(PyCodeObject* code, RunningFrame frame, RunningFrame caller) {
  const PythonThreadCache* const cache = PythonThreadCache::get();
  if (cache != nullptr && !cache->log.is_open(key_of(frame, code))) python_enter(code, frame, caller);
}

void python_leave(PyCodeObject* code, RunningFrame frame) {
  const uint64_t ticks = now_ticks();
  PythonThreadCache* cache = begin_event(frame, ticks);
  if (cache == nullptr) return;
  const uint64_t key = key_of(frame, code);
  if (cache->has_frames_that_may_begin) [[unlikely]]
    settle(*cache, key, /*begins=*/false);
  if (close_top(*cache, key, ticks)) [[likely]]
    return;
  const uint64_t overlap_ticks = PythonCalls::overlap_ticks();
  const uint32_t id = frame_of(*cache, code);
  if (cache->hidden == key) cache->hidden = 0;
  if (id == kHiddenFrame || id == kProgramFrame || cache->hidden != 0) return;
  cache->log.close_span(key, ticks, EndOf::kPythonCall);
  if (overlap_ticks != 0) cache->log.note_end(key, ticks);
}

bool evaluation_begins(PythonThreadCache& cache, RunningFrame frame, PyCodeObject* code, uint64_t key,
                       RunningFrame caller) {
  if (cache.generation != PythonCalls::generation()) [[unlikely]]
    begin_generation(cache, caller, now_ticks());
  if (cache.evaluating++ == 0) [[unlikely]]
    notice_ends(cache, caller, now_ticks());
  const bool is_plain = cache.hidden == 0 && !cache.has_frames_that_may_begin;
  const uint32_t id = is_plain ? frame_of_call(cache, code, caller) : kHiddenFrame;
  if (id == kSkippedFrame) return false;
  if (id >= kFirstSpecialFrame) [[unlikely]] {
    python_enter(code, frame, caller);
    return true;
  }
  begin_call(cache.log, {RecordKind::kPythonCall, key, id, instruction_of(cache, caller)});
  return true;
}

void evaluation_passed(PythonThreadCache& cache, PyThreadState* state) {
  if (cache.generation != PythonCalls::generation()) [[unlikely]]
    begin_generation(cache, RunningFrame::current(state), now_ticks());
  note_evaluated(cache, state);
}

void evaluation_ends(PythonThreadCache& cache, uint64_t key, PyThreadState* state) {
  const uint64_t ticks = now_ticks();
  if (cache.generation != PythonCalls::generation()) [[unlikely]]
    begin_generation(cache, RunningFrame::current(state), ticks);
  note_evaluated(cache, state, ticks);
  if (cache.has_frames_that_may_begin) [[unlikely]]
    settle(cache, key, /*begins=*/false);
  if (close_top(cache, key, ticks)) [[likely]]
    return;
  if (cache.hidden == key) cache.hidden = 0;
  cache.log.close_if_begun(key, ticks);
  if (PythonCalls::overlap_ticks() != 0 && cache.hidden == 0) cache.log.note_end(key, ticks);
}

void python_enter_c(PyObject* callable, PyObject* self, RunningFrame caller) {
  PythonThreadCache* cache = begin_event(caller);
  if (cache == nullptr || cache->hidden != 0) return;
  const uint32_t name = c_function_name(*cache, callable, self);
  const int32_t offset = caller.instruction();
  begin_call(cache->log, {RecordKind::kCCall, c_key(callable), name, offset});
}

// A C call that began before the hooks were installed has no span.
void python_leave_c(PyObject* callable, RunningFrame caller) {
  const uint64_t ticks = now_ticks();
  PythonThreadCache* cache = begin_event(caller, ticks);
  if (cache == nullptr || cache->hidden != 0) return;
  cache->log.close_if_begun(c_key(callable), ticks);
}

}  // namespace opscope
