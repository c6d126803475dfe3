// What a step of the program waited for because others had the processors: the kernel counts for every thread
// how long it ran and how long it could have run. Read where a step ends, so seldom that it takes about a
// thousandth of the time; without the GIL's help, and without waiting for anybody.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "log/own_file.h"

namespace opscope {

// Of one step.
struct StepWaits {
  bool is_known = false;
  int64_t waited_ns = 0;  // its thread could have run, but other threads had the processors
  int64_t others_ns = 0;  // it came so much later because of other programs, here or in threads it waited for
  int64_t ran_ns = 0;     // its thread computed, or the host had taken the processor away
};

// Of what threads of a program waited together, for which they have themselves to thank. They wait for each
// other only where they want more than all processors have. But one that others keep from running wants a
// processor all the time, so it is no more of the waiting than their share of all that the processors did.
int64_t waited_for_own_threads_ns(int64_t ran_ns, int64_t waited_ns, int64_t processors, int64_t since_ns);

class ProcessorWaits {
 public:
  ProcessorWaits() = default;
  ProcessorWaits(const ProcessorWaits&) = delete;
  ProcessorWaits& operator=(const ProcessorWaits&) = delete;
  ~ProcessorWaits();

  // [one thread] Notices threads that are new and those that have ended.
  void find_threads();
  // [MT] Opens nothing any more, and closes what is open.
  void end();
  // [MT] This thread is the recorder's own: nobody waits for it.
  void leave_out_this_thread();
  // [MT] This one too, but for the time between `wants_gil` and `leaves_gil`.
  void leave_out_this_thread_of_python();
  // [the recorder's thread of Python] The program waits for it where it wants the GIL, or has it.
  void wants_gil();
  void leaves_gil();
  // [MT] Of a step that ended at `now_ns` on the calling thread; steps take `typical_ns` for the most part.
  StepWaits of_step(int64_t began_ns, int64_t now_ns, int64_t typical_ns);

 private:
  struct Since {
    int64_t ran_ns = -1;  // not known
    int64_t waited_ns = 0;
  };
  struct Thread {
    pid_t number;
    OwnFile file;
    Since read{};  // since it began
  };

  void read(Since& own);
  int64_t waited_with_gil_ns() const;
  StepWaits caused_by_others(const Since& own, int64_t began_ns, int64_t now_ns, int64_t since_ns,
                             int64_t typical_ns) const;
  void add(pid_t number);
  int64_t pause_after(int64_t cost_ns);
  Thread* find(pid_t number);

  std::mutex mutex_;  // for all that follows; a step never waits for it
  std::vector<Thread> threads_;
  std::vector<Since> others_;
  std::set<pid_t> left_out_;
  std::atomic<bool> has_ended_{false};
  int64_t processors_ = 1;
  int64_t process_ran_ns_ = 0;
  int64_t unseen_ns_ = 0;           // that other threads ran than those whose counts are open
  int64_t recorder_waited_ns_ = 0;  // its thread of Python, with the GIL or for it; since it was last read
  int64_t recorder_read_ns_ = 0;
  int64_t read_at_ns_ = 0;
  int64_t cost_ns_ = 0;
  int64_t pause_ns_ = 0;

  // Of the recorder's thread of Python, which writes it; never behind a lock that it may hold while it waits.
  OwnFile recorder_file_;
  bool knows_recorder_ = false;
  std::atomic<int64_t> waited_before_ns_{-1};  // when it began to want the GIL; -1 while it does not
  std::atomic<int64_t> waited_until_now_ns_{0};
};

// How long the thread that made it has waited for a processor; asked by that thread alone.
class OwnWaits {
 public:
  OwnWaits();
  OwnWaits(const OwnWaits&) = delete;
  OwnWaits& operator=(const OwnWaits&) = delete;

  // So far; -1 where nobody counts that.
  int64_t waited_ns();

 private:
  OwnFile file_;
};

}  // namespace opscope
