// Running functions of all threads at one moment.
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

// A thread and its running functions, innermost first.
struct SeenThread {
  uint64_t native_thread;
  int64_t system_thread_id;
  std::vector<SeenFrame> frames;
};

// [GIL] Running functions of all Python threads at one moment: nothing runs Python or releases the GIL.
class RunningThreads {
 public:
  // Threads whose functions are listed. Threads that report no calls would never report ends of functions.
  enum class Functions { kOfReportingThreads, kOfAll };

  // `most_frames`: limit per thread; recursion may be a million calls deep.
  explicit RunningThreads(Functions functions = Functions::kOfReportingThreads,
                          size_t most_frames = SIZE_MAX);
  RunningThreads(const RunningThreads&) = delete;
  RunningThreads& operator=(const RunningThreads&) = delete;
  ~RunningThreads();

  const std::vector<SeenThread>& seen() const { return threads_; }
  // Number of threads listed without functions, because they run a function of another tool now.
  uint64_t inside_tools() const { return inside_tools_; }

 private:
  std::vector<SeenThread> threads_;
  uint64_t inside_tools_ = 0;
};

// [GIL] Stack without opscope's functions and their callees, whose ends are not recorded either. `log`: given
// for the calling thread; its open spans include the program's calls of skipped libraries.
InitialStack stack_of(const SeenThread& thread, FrameTable& frames, const ThreadLog* log);

// A running call of a given function.
struct RunningCall {
  uint64_t native_thread;
  int64_t system_thread_id;
  const void* frame;  // used as an address only
  Owned first_argument;
};

// [GIL] Running calls of `code` in all threads, the outermost first. Runs no Python.
std::vector<RunningCall> running_calls(PyCodeObject* code);
// [GIL] Adds a source's span as running on a thread: around the call with this frame, or innermost if no call
// has it. Add outer spans first.
void add_running(std::vector<InitialStack>& stacks, uint64_t native_thread, int64_t system_thread_id,
                 const InitialFrame& span, const void* frame);
// [GIL] The same for a span that began inside this call.
void add_inside(std::vector<InitialStack>& stacks, uint64_t native_thread, int64_t system_thread_id,
                const InitialFrame& span, const void* frame);
// [GIL] Thread with this unique id of Python's thread state; without its frames.
std::optional<SeenThread> running_thread(uint64_t python_thread);
// [GIL] Keys of all running calls, by pthread_self() of their thread.
std::unordered_map<uint64_t, std::unordered_set<uint64_t>> running_keys();

}  // namespace opscope
