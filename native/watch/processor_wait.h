// How long a thread could have run while other threads had the processors: the kernel counts that for each.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "log/own_file.h"

namespace opscope {

// Called by one thread at a time.
class ProcessorWait {
 public:
  // What the calling thread waited since it last called this; -1 where that is not known: at the first call,
  // or where nobody counts.
  int64_t since_last_ns();

 private:
  OwnFile file_;  // of `thread_`, kept open
  pid_t thread_ = 0;
  int64_t waited_ns_ = -1;  // in all, when it was last read
};

}  // namespace opscope
