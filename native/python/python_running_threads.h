// What all threads are running at one moment.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "log/recorder.h"
#include "python/owned.h"
#include "python/python_frames.h"
#include "python/python_thread_cache.h"

namespace opscope {

struct SeenFrame {
  PyCodeObject* code;  // owned
  uint64_t key;
  int32_t instruction;
  bool may_begin;  // see InitialFrame
};

// What a thread is running, innermost first.
struct SeenThread {
  uint64_t native_thread;
  int64_t system_thread_id;
  std::vector<SeenFrame> frames;
};

// [GIL] What all threads that Python knows are running, read at one moment: nothing in between runs Python or
// releases the GIL.
class RunningThreads {
 public:
  // Of which threads the functions are listed. Threads that report no calls would never report the ends of
  // functions.
  enum class Functions { kOfReportingThreads, kOfAll };

  // `most_frames` of a thread at most: a function that calls itself may do so a million times.
  explicit RunningThreads(Functions functions = Functions::kOfReportingThreads,
                          size_t most_frames = SIZE_MAX);
  RunningThreads(const RunningThreads&) = delete;
  RunningThreads& operator=(const RunningThreads&) = delete;
  ~RunningThreads();

  const std::vector<SeenThread>& seen() const { return threads_; }
  // How many of them are listed without functions because they run those of another tool at this moment.
  uint64_t inside_tools() const { return inside_tools_; }

 private:
  std::vector<SeenThread> threads_;
  uint64_t inside_tools_ = 0;
};

// [GIL] Without our own functions and what they called: their returns are not recorded either. `log`: the
// thread's own, if this is the calling thread: its open calls were recorded, including the program's calls of
// skipped libraries; their inner calls are recorded as theirs.
InitialStack stack_of(const SeenThread& thread, FrameTable& frames, const ThreadLog* log);

// A call of one function that a thread is in the middle of.
struct RunningCall {
  uint64_t native_thread;
  int64_t system_thread_id;
  const void* frame;  // an address
  Owned first_argument;
};

// [GIL] Those of all threads, a thread's outermost first; without running Python.
std::vector<RunningCall> running_calls(PyCodeObject* code);
// [GIL] Notes a source's own span as running on a thread: around the call that has this frame, innermost
// where that runs nothing of the thread's; outer ones come first.
void add_running(std::vector<InitialStack>& stacks, uint64_t native_thread, int64_t system_thread_id,
                 const InitialFrame& span, const void* frame);
// [GIL] Likewise one that began in this call and is inside of it.
void add_inside(std::vector<InitialStack>& stacks, uint64_t native_thread, int64_t system_thread_id,
                const InitialFrame& span, const void* frame);
// [GIL] The thread of the state that has this id of Python's; its frames are not read.
std::optional<SeenThread> running_thread(uint64_t python_thread);
// [GIL] The keys of everything that runs, by pthread_self() of the thread that runs it.
std::unordered_map<uint64_t, std::unordered_set<uint64_t>> running_keys();

}  // namespace opscope
