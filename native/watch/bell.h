// What wakes threads that watch. No file: one would be in the way of programs that close all they might have
// opened, and what they open next would be written to.
#pragma once

#include <cstdint>

namespace opscope {

class Bell {
 public:
  // [MT, in a signal handler] Wakes all who wait.
  static void ring();
  // [MT] How often it has rung.
  static uint32_t rung();
  // [MT] Until it has rung more than `heard` times, or for so long.
  static void wait(uint32_t heard, int64_t timeout_ns);
};

}  // namespace opscope
