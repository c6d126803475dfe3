// Kernel counters of one thread of this process; reading them needs neither the thread nor the GIL.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "log/own_file.h"
#include "schema/codes.h"

namespace opscope {

struct KernelCounts {
  int64_t computed_ns = 0;
  int64_t delayed_ns = 0;
  int64_t system_ns = 0;
  int64_t faults = 0;
  WaitsFor waits_for = WaitsFor::kNothing;
};

// A file of one thread under /proc. An open file is cheaper to read again, but uses one of the program's
// descriptors.
class ThreadFile {
 public:
  // `name` must outlive the object.
  ThreadFile(pid_t thread, const char* name, bool keeps_open);

  // Reads the file as text that ends with a 0; false if nothing was read.
  bool read(char* text, size_t size) const;

 private:
  pid_t thread_;
  const char* name_;
  OwnFile file_;
};

// Files and counters of one thread; or, with a negative number, of another process: the CPU time of all its
// threads, and the waits for a CPU of its main thread and of the one that waited longest.
class CountedThread {
 public:
  CountedThread(pid_t thread, bool keeps_open);

  pid_t thread() const { return thread_; }
  bool keeps_open() const { return keeps_open_; }
  // CPU time so far; -1 if the thread has ended. One system call, for threads that sleep.
  int64_t computed_ns() const;
  // Reads all counters; false if the thread has ended.
  bool read(int64_t computed_ns, KernelCounts& counts) const;

 private:
  pid_t thread_;
  bool keeps_open_;
  ThreadFile schedule_, stat_, call_;
};

// Processes that this one may wait for: its children, theirs, and with `with_siblings` the other children of
// its parent. None of those of a parent that has many: they are no ranks of one job. Only the first threads
// of a process with hundreds count as parents.
std::vector<pid_t> processes_beside(bool with_siblings);

// Number of threads whose files may stay open: a small share of the descriptor limit.
size_t most_threads_kept_open();

}  // namespace opscope
