#include "watch/processor_wait.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace opscope {

namespace {

// In all; -1 where nobody counts.
int64_t read_waited_ns(int file) {
  char text[96];
  const ssize_t length = pread(file, text, sizeof(text) - 1, 0);
  if (length <= 0) return -1;
  text[length] = '\0';
  char* rest = nullptr;
  const int64_t ran_ns = std::strtoll(text, &rest, 10);
  return ran_ns > 0 ? std::strtoll(rest, nullptr, 10) : -1;
}

}  // namespace

int64_t ProcessorWait::since_last_ns() {
  const auto thread = static_cast<pid_t>(syscall(SYS_gettid));
  if (thread != std::exchange(thread_, thread)) waited_ns_ = -1;
  if (waited_ns_ < 0 || file_.get() < 0)
    file_ = OwnFile(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  const int64_t now_ns = read_waited_ns(file_.get());
  const int64_t before_ns = std::exchange(waited_ns_, now_ns);
  return before_ns < 0 || now_ns < 0 ? -1 : now_ns - before_ns;
}

}  // namespace opscope
