#include "python/python_running_threads.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>

#include "cpython/thread_states.h"
#include "interpreter/thread_of_pthread.h"
#include "python/python_hooks.h"
#include "python/python_running_frame.h"

namespace opscope {

namespace {

int64_t system_thread_id(PyThreadState* state, bool is_current) {
  if (is_current) return static_cast<int64_t>(syscall(SYS_gettid));
#if PY_VERSION_HEX >= 0x030B0000
  return static_cast<int64_t>(state->native_thread_id);
#else
  return system_thread_id_of(static_cast<pthread_t>(state->thread_id));
#endif
}

}  // namespace

RunningThreads::RunningThreads(Functions functions, size_t most_frames) {
  PyThreadState* const current = PyThreadState_Get();
  for_each_thread_state([&](PyThreadState* state) {
    threads_.push_back(
        {static_cast<uint64_t>(state->thread_id), system_thread_id(state, state == current), {}});
    inside_tools_ += is_inside_a_tool(state) ? 1 : 0;
    if (functions == Functions::kOfReportingThreads && !will_report_ends(state)) return;
    std::vector<SeenFrame>& frames = threads_.back().frames;
    RunningFrame frame = RunningFrame::current(state);
    for (; frame && frames.size() < most_frames; frame = frame.caller()) {
      PyCodeObject* const code = frame.code();
      frames.push_back({code, key_of(frame, code), frame.instruction(), frame.may_begin()});
      Py_INCREF(reinterpret_cast<PyObject*>(code));
    }
  });
}

RunningThreads::~RunningThreads() {
  for (const SeenThread& thread : threads_) {
    for (const SeenFrame& frame : thread.frames) Py_DECREF(reinterpret_cast<PyObject*>(frame.code));
  }
}

InitialStack stack_of(const SeenThread& thread, FrameTable& frames, const ThreadLog* log) {
  std::unordered_set<uint64_t> open;
  if (log != nullptr) {
    for (size_t i = 0; i < log->open().size(); ++i) open.insert(log->open()[i].key);
  }
  // A library function that the program called is recorded only if its span is open.
  const auto row_of = [&](const SeenFrame& frame) {
    const uint32_t id = frames.intern(frame.code);
    return id == kSkippedFrame && open.contains(frame.key) ? frames.intern_called(frame.code) : id;
  };
  InitialStack stack{thread.native_thread, thread.system_thread_id, {}};
  for (size_t i = 0; i < thread.frames.size(); ++i) {
    const SeenFrame& frame = thread.frames[i];
    uint32_t id = row_of(frame);
    if (id == kProgramFrame) break;
    if (id == kHiddenFrame) stack.frames.clear();
    if (id == kModuleFrame) id = frames.module_row();
    if (id == kOptimizerFrame) id = frames.optimizer_row();
    if (id >= kFirstSpecialFrame) continue;
    size_t caller = i + 1;
    while (caller < thread.frames.size() && row_of(thread.frames[caller]) == kSkippedFrame) ++caller;
    const int32_t caller_offset = caller < thread.frames.size() ? thread.frames[caller].instruction : -1;
    stack.frames.push_back(running_call(frame.key, id, caller_offset, frame.may_begin));
  }
  std::reverse(stack.frames.begin(), stack.frames.end());
  return stack;
}

std::vector<RunningCall> running_calls(PyCodeObject* code) {
  std::vector<RunningCall> found;
  PyThreadState* const current = PyThreadState_Get();
  for_each_thread_state([&](PyThreadState* state) {
    const size_t first = found.size();
    for (RunningFrame frame = RunningFrame::current(state); frame; frame = frame.caller()) {
      if (frame.code() != code) continue;
      found.push_back({static_cast<uint64_t>(state->thread_id), system_thread_id(state, state == current),
                       frame.address(), Owned(frame.first_argument())});
    }
    std::reverse(found.begin() + static_cast<ptrdiff_t>(first), found.end());
  });
  return found;
}

namespace {

enum class Itself { kIncluded, kLeftOut };

// Keys of the call with this frame and of all calls inside it; empty if no call has the frame.
std::unordered_set<uint64_t> keys_inside(uint64_t native_thread, const void* outermost, Itself itself) {
  std::unordered_set<uint64_t> keys;
  bool is_there = false;
  for_each_thread_state([&](PyThreadState* state) {
    if (static_cast<uint64_t>(state->thread_id) != native_thread) return;
    for (RunningFrame frame = RunningFrame::current(state); frame && !is_there; frame = frame.caller()) {
      is_there = frame.address() == outermost;
      if (!is_there || itself == Itself::kIncluded) keys.insert(key_of(frame, frame.code()));
    }
  });
  if (!is_there) keys.clear();
  return keys;
}

void add_around(std::vector<InitialStack>& stacks, uint64_t native_thread, int64_t system_thread_id,
                const InitialFrame& span, const std::unordered_set<uint64_t>& inside) {
  auto stack = std::find_if(stacks.begin(), stacks.end(), [native_thread](const InitialStack& candidate) {
    return candidate.native_thread == native_thread;
  });
  if (stack == stacks.end()) stack = stacks.insert(stacks.end(), {native_thread, system_thread_id, {}});
  std::vector<InitialFrame>& frames = stack->frames;
  const auto place = std::find_if(frames.begin(), frames.end(), [&inside](const InitialFrame& running) {
    return inside.contains(running.key());
  });
  frames.insert(place, span);
}

}  // namespace

void add_running(std::vector<InitialStack>& stacks, uint64_t native_thread, int64_t system_thread_id,
                 const InitialFrame& span, const void* frame) {
  add_around(stacks, native_thread, system_thread_id, span,
             keys_inside(native_thread, frame, Itself::kIncluded));
}

void add_inside(std::vector<InitialStack>& stacks, uint64_t native_thread, int64_t system_thread_id,
                const InitialFrame& span, const void* frame) {
  add_around(stacks, native_thread, system_thread_id, span,
             keys_inside(native_thread, frame, Itself::kLeftOut));
}

std::optional<SeenThread> running_thread(uint64_t python_thread) {
  std::optional<SeenThread> found;
  PyThreadState* const current = PyThreadState_Get();
  for_each_thread_state([&](PyThreadState* state) {
    if (PyThreadState_GetID(state) != python_thread) return;
    found =
        SeenThread{static_cast<uint64_t>(state->thread_id), system_thread_id(state, state == current), {}};
  });
  return found;
}

std::unordered_map<uint64_t, std::unordered_set<uint64_t>> running_keys() {
  std::unordered_map<uint64_t, std::unordered_set<uint64_t>> threads;
  for_each_thread_state([&](PyThreadState* state) {
    std::unordered_set<uint64_t>& keys = threads[static_cast<uint64_t>(state->thread_id)];
    for (RunningFrame frame = RunningFrame::current(state); frame; frame = frame.caller()) {
      keys.insert(key_of(frame, frame.code()));
    }
  });
  return threads;
}

}  // namespace opscope
