// Windows of a Python process: opening and closing one also tells the sources that listen to the interpreter.
//
// [GIL] Everything here, by one thread after the other where there is none. Setting up a source may run
// Python code and so other threads, which may open and close windows meanwhile; every step asks the recorder
// anew what open windows want.
#pragma once

#include <cstdint>
#include <vector>

#include "interpreter/turns.h"

namespace opscope {

// [GIL] While one exists, no other thread changes windows, also where there is no GIL to see to that. This
// one may.
class WindowsStay {
 public:
  WindowsStay();

 private:
  Turn turn_;
};

// Returns its id: `reserved`, or a new one for 0. `collects`: of `wants`, what it collects at first. Raises
// std::runtime_error if it cannot be opened.
uint32_t open_window(uint32_t wants, bool all_threads, uint32_t reserved, uint32_t collects,
                     uint64_t most_growth_bytes);
// Idempotent. Devices go on being collected until configure_gpu(): what the window launched may still run.
void close_window(uint32_t id);
void pause_window(uint32_t id, bool paused);
// Collect only `wants` of what an open window wants, until told otherwise.
void collect(const std::vector<uint32_t>& ids, uint32_t wants);
// A closed window with what this one has so far, which goes on; 0 if there is none.
uint32_t snapshot_window(uint32_t id);
// Nothing that the window recorded is needed any more.
void discard_window(uint32_t id);

// In a forked child: no other thread changes any.
void windows_forked();
// Has sources listen to what open windows want, and `also` what one wants that is about to open, and no more.
void configure_sources(uint32_t also = 0);

}  // namespace opscope
