#include "watch/watched_signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace opscope {

namespace {

constexpr int kSignals = 64;

struct Watched {
  struct sigaction before;
  std::atomic<bool> is_on{false};
};

Watched watched[kSignals + 1];
std::atomic<uint64_t> arrived{0};
std::atomic<pid_t> process{0};  // a forked child inherits handlers, but its signals do not count

void on_signal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  if (process.load(std::memory_order_relaxed) == getpid()) {
    arrived.fetch_or(uint64_t{1} << (signal - 1), std::memory_order_relaxed);
  }
  const struct sigaction& before = watched[signal].before;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  }
  errno = saved_errno;
}

}  // namespace

int WatchedSignals::add(int signal) {
  if (signal < 1 || signal > kSignals) return EINVAL;
  if (watched[signal].is_on.exchange(true)) return EBUSY;
  process = getpid();
  struct sigaction action = {};
  action.sa_sigaction = &on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  if (sigaction(signal, nullptr, &watched[signal].before) == 0 && sigaction(signal, &action, nullptr) == 0)
    return 0;
  const int error = errno;
  watched[signal].is_on = false;
  return error;
}

void WatchedSignals::remove(int signal) {
  if (signal < 1 || signal > kSignals || !watched[signal].is_on.exchange(false)) return;
  struct sigaction now = {};
  if (sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
      now.sa_sigaction == &on_signal) {
    sigaction(signal, &watched[signal].before, nullptr);
  }
}

uint64_t WatchedSignals::take() { return arrived.exchange(0); }

}  // namespace opscope
