// Windows of a Python process; opening and closing one also configures the sources that hook the interpreter.
//
// [GIL] Everything here; without a GIL, one thread at a time. Configuring a source may run Python code and
// other threads, which may open and close windows, so every step reads again what open windows want.
#pragma once

#include <cstdint>
#include <vector>

#include "interpreter/turns.h"

namespace opscope {

// [GIL] While one exists, no other thread changes windows, with or without a GIL. This thread may.
class WindowsStay {
 public:
  WindowsStay();

 private:
  Turn turn_;
};

// Returns the window's id: `reserved`, or a new one for 0. `collects`: the part of `wants` that it collects
// at first. Raises std::runtime_error if it cannot be opened.
uint32_t open_window(uint32_t wants, bool all_threads, uint32_t reserved, uint32_t collects,
                     uint64_t most_growth_bytes);
// Idempotent. Devices are collected until configure_gpu(): work that the window launched may still run.
void close_window(uint32_t id);
void pause_window(uint32_t id, bool paused);
// Makes open windows collect only `wants` from now on.
void collect(const std::vector<uint32_t>& ids, uint32_t wants);
// Makes a closed window of the records so far and returns its id; window `id` continues. 0: no such window.
uint32_t snapshot_window(uint32_t id);
// Releases the records of the window.
void discard_window(uint32_t id);

// In a forked child: no other thread changes windows.
void windows_forked();
// Configures sources for exactly the wants of open windows and `also`, the wants of a window about to open.
void configure_sources(uint32_t also = 0);

}  // namespace opscope
