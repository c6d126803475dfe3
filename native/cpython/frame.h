// CPython's frames as RunningFrame uses them, in one file per version with its own layout.
//
// From 3.11 on a frame object exists only if code requested it, and creating one costs more than recording
// the call. So opscope reads CPython's internal frames where their layout is known (3.11 to 3.15), with the
// GIL, or while their thread is stopped or runs this code, and never writes to them. Each file has:
//
//   Frame                  type of a frame
//   kReadsWithoutGil       whether these functions also work without the GIL: they count no references
//   current_frame(state)   innermost frame of a thread, or nullptr
//   previous_of(frame)     next outer frame, or nullptr
//   is_incomplete(frame)   whether it belongs to no function, or is not complete yet
//   code_of(frame)         its code; borrowed
//   instruction_of(frame)  offset of its instruction, as PyCode_Addr2Line expects it
//   may_begin(frame)       whether its call may not have been reported yet
//   first_local_of(frame)  its first local variable or the cell of that; borrowed; nullptr for none
//   frame_of_generator(g)  frame of a generator or coroutine, as an address
//   frame_of(object)       frame of a frame object, for hooks that receive those
#pragma once

#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000
#include "cpython/frame_3_10.h"
#elif PY_VERSION_HEX < 0x030C0000
#include "cpython/frame_3_11.h"
#elif PY_VERSION_HEX < 0x030D0000
#include "cpython/frame_3_12.h"
#elif PY_VERSION_HEX < 0x030E0000
#include "cpython/frame_3_13.h"
#elif PY_VERSION_HEX < 0x03100000
#include "cpython/frame_3_14.h"
#else
#include "cpython/frame_unknown.h"
#endif
