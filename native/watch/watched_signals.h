// Signals that ask for a dump. The handler sets a bit, which the watch sees at its
// next tick, and does nothing else.
#pragma once

#include <csignal>
#include <cstdint>

namespace opscope {

class WatchedSignals {
 public:
  // [MT] Hears `signal` from now on; what handled it before is called after us. Returns 0, or an errno.
  static int add(int signal);
  // [MT] As it was before, unless somebody has taken the signal since.
  static void remove(int signal);
  // [MT] Signals that came since the last call, as bits.
  static uint64_t take();
};

}  // namespace opscope
