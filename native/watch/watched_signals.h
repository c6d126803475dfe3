// Signals that request a dump. The handler only sets a bit, which the watch reads at its next tick.
#pragma once

#include <csignal>
#include <cstdint>

namespace opscope {

class WatchedSignals {
 public:
  // [MT] Handles `signal` from now on; the previous handler is called afterwards. Returns 0 or an errno.
  static int add(int signal);
  // [MT] Restores the previous handler, unless the signal has another handler by now.
  static void remove(int signal);
  // [MT] Signals since the last call, as bits.
  static uint64_t take();
};

}  // namespace opscope
