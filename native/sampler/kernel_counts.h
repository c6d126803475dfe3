// What the kernel has counted of one thread of this process, read without its help and without the GIL.
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

// A file of one thread under /proc. One that is kept open is cheaper to read again, but takes one of the
// descriptors that the program may have.
class ThreadFile {
 public:
  // `name` has to live as long.
  ThreadFile(pid_t thread, const char* name, bool keeps_open);

  // As text that ends with a 0; false for nothing.
  bool read(char* text, size_t size) const;

 private:
  pid_t thread_;
  const char* name_;
  OwnFile file_;
};

// What is known of one thread of this process; or, with a negative number, of another process: the CPU time of
// all its threads, and how long its main thread waited for a CPU.
class CountedThread {
 public:
  CountedThread(pid_t thread, bool keeps_open);

  pid_t thread() const { return thread_; }
  bool keeps_open() const { return keeps_open_; }
  // How long it was on a processor so far; -1 where it has ended. One system call, for threads that sleep.
  int64_t computed_ns() const;
  // All of them; false where it has ended.
  bool read(int64_t computed_ns, KernelCounts& counts) const;

 private:
  pid_t thread_;
  bool keeps_open_;
  ThreadFile schedule_, stat_, call_;
};

// Processes that this one may wait for: its children, theirs, and with `with_siblings` the other children of its
// parent. None of those of a parent that has many: they are no ranks of one job. A child of a thread other than
// the main one is not found.
std::vector<pid_t> processes_beside(bool with_siblings);

// Of how many threads files may be kept open: a small share of what the process may have.
size_t most_threads_kept_open();

}  // namespace opscope
