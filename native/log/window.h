// Facts of a window other than records: plain data, valid in another process.
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

// Span already running when a window opened: of a Python function or of a source.
struct InitialFrame {
  Record span{};           // `end` is its key; no ticks yet
  bool may_begin = false;  // at its first instruction: its call may not have been reported yet

  uint64_t key() const { return span.span.end; }
};

inline InitialFrame running_call(uint64_t key, uint32_t function, int32_t caller_offset, bool may_begin) {
  InitialFrame frame{{}, may_begin};
  frame.span.kind = RecordKind::kPythonCall;
  frame.span.call = {key, function, 0, caller_offset};
  return frame;
}

// Frames of one thread when a window opened, outermost first.
struct InitialStack {
  uint64_t native_thread;    // pthread_self() of the thread
  int64_t system_thread_id;  // 0 if Python does not know it
  std::vector<InitialFrame> frames;
};

struct ThreadFacts {
  uint64_t number = 0;  // in order of creation; `owner` in blocks
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

// Whether the frames are this thread's (ThreadFacts or ThreadLog). Compares the system's id too: a thread
// that began in the window may have the pthread handle of one that ended there.
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

// Counts marked (difference): while the window is open, the process's count at its opening; after closing,
// the increase in between.
struct WindowFacts {
  uint32_t wants = 0;
  int64_t only_thread = 0;   // system thread id to restrict to, 0 for all
  bool process_ids = false;  // its spans have the same ids in all windows that were open together
  ClockAnchor started;
  ClockAnchor stopped;
  std::vector<Pause> pauses;
  std::vector<uint64_t> releases;  // ticks; from each on, addresses of TensorImpls may be others' before
  std::vector<InitialStack> initial_stacks;
  bool is_in_pieces = false;            // parts of its stream are in segments, where tensors have no ids
  uint64_t tensors_mark = 0;            // first mark of the tensors held for it; 0 if unknown
  uint64_t tensors_not_held = 0;        // (difference) their addresses may have been reused
  uint64_t unknown_frees = 0;           // (difference) of older memory, whose frees torch does not report
  Drops of_ending_threads;              // (difference) of threads without a log
  uint64_t unrecorded_evaluations = 0;  // (difference) of Python functions, because a stack was nearly full
  uint64_t unhooked_threads = 0;        // Python threads whose calls were not recorded; set by the hooks
  uint64_t process_threads = 0;         // threads of the process when the window closed; 0 if unknown
  std::string fault;                    // why recording ended before the window did, or empty
  std::vector<LedgerNote> notes;        // from sources, when it closes
};

}  // namespace opscope
