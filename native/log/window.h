// What is known of a window beside the records: plain data, which means the same in another process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "log/clock.h"
#include "log/record.h"
#include "log/thread_log.h"

namespace opscope {

struct Pause {
  uint64_t from_ticks;
  uint64_t to_ticks;  // UINT64_MAX while it lasts
};

// A span that was already running when a window opened: of a Python function, or one of a source's own.
struct InitialFrame {
  Record span{};           // its `end` is the key that its end will be recorded with; no ticks yet
  bool may_begin = false;  // it was at its first instruction: its call may not have been reported yet

  uint64_t key() const { return span.span.end; }
};

inline InitialFrame running_call(uint64_t key, uint32_t function, int32_t caller_offset, bool may_begin) {
  InitialFrame frame{{}, may_begin};
  frame.span.kind = RecordKind::kPythonCall;
  frame.span.call = {key, function, 0, caller_offset};
  return frame;
}

// The frames of one thread when a window opened, outermost first.
struct InitialStack {
  uint64_t native_thread;    // pthread_self() of the thread
  int64_t system_thread_id;  // 0 where Python does not know it
  std::vector<InitialFrame> frames;
};

struct ThreadFacts {
  uint64_t number = 0;  // in order of creation; what blocks call their owner
  uint64_t native_thread = 0;
  int64_t system_thread_id = 0;
  uint64_t torch_thread_id = 0;
  std::string name;
};

inline ThreadFacts facts_of(const ThreadLog& log) {
  const std::string* const by_program = log.program_name.load();
  return {log.number, log.native_thread, log.system_thread_id, log.torch_thread_id.load(),
          by_program != nullptr ? *by_program : *log.name};
}

// Whether the frames are this thread's (ThreadFacts or ThreadLog). The system's id is compared as well: a
// thread that began in the window may have the pthread handle of one that ended there.
template <typename Thread>
bool is_of(const InitialStack& stack, const Thread& thread) {
  return stack.native_thread == thread.native_thread &&
         (stack.system_thread_id == 0 || stack.system_thread_id == thread.system_thread_id);
}

// A row of a trace's ledger.
struct LedgerNote {
  std::string source;
  std::string what;
  double value = 0;
};

// Counts marked (difference) hold the process's count at the opening while the window is open, and from the
// closing on how much was added in between.
struct WindowFacts {
  uint32_t wants = 0;
  int64_t only_thread = 0;   // system thread id to narrow to, 0 for all
  bool process_ids = false;  // its spans have the same ids in all windows that were open together
  ClockAnchor started;
  ClockAnchor stopped;
  std::vector<Pause> pauses;
  std::vector<InitialStack> initial_stacks;
  bool is_in_pieces = false;         // parts of its stream are in segments, where tensors have no ids
  uint64_t tensors_mark = 0;         // from which tensors are held for it; 0 where that is not told
  uint64_t tensors_not_held = 0;     // (difference) their addresses may have been reused
  uint64_t unknown_frees = 0;        // (difference) of memory from before, whose frees torch does not report
  Drops of_ending_threads;           // (difference) of threads whose log was gone already
  uint64_t unheard_evaluations = 0;  // (difference) of Python functions, where a stack was nearly used up
  uint64_t unhooked_threads = 0;     // Python threads whose calls were not recorded; set by the hooks
  uint64_t process_threads = 0;      // threads of the process when the window closed; 0 if not known
  std::string fault;                 // why recording ended before the window did, or empty
  std::vector<LedgerNote> notes;     // what sources say of it when it closes
};

}  // namespace opscope
