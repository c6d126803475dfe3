// Time that a thread waited for a CPU, as the kernel counts it.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "log/own_file.h"

namespace opscope {

// Not thread-safe.
class ProcessorWait {
 public:
  // Wait of the calling thread since the last call; -1 if unknown: at the first call, or if the kernel does
  // not count.
  int64_t since_last_ns() {
    const auto thread = static_cast<pid_t>(syscall(SYS_gettid));
    if (thread != std::exchange(thread_, thread)) waited_ns_ = -1;
    if (waited_ns_ < 0 || file_.get() < 0)
      file_ = OwnFile(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
    const int64_t now_ns = read_waited_ns(file_.get());
    const int64_t before_ns = std::exchange(waited_ns_, now_ns);
    return before_ns < 0 || now_ns < 0 ? -1 : now_ns - before_ns;
  }

 private:
  // Total wait; -1 if the kernel does not count.
  static int64_t read_waited_ns(int file) {
    char text[96];
    const ssize_t length = pread(file, text, sizeof(text) - 1, 0);
    if (length <= 0) return -1;
    text[length] = '\0';
    char* rest = nullptr;
    const int64_t ran_ns = std::strtoll(text, &rest, 10);
    return ran_ns > 0 ? std::strtoll(rest, nullptr, 10) : -1;
  }

  OwnFile file_;  // of `thread_`, kept open
  pid_t thread_ = 0;
  int64_t waited_ns_ = -1;  // total at the last call
};

}  // namespace opscope
