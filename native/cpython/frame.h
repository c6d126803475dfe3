// CPython's frames: what RunningFrame asks of them, in a file for each version that lays them out in its own
// way.
//
// From 3.11 on a frame object is made only for code that asks for one, and making it costs more than
// recording the call. So CPython's internal frames are read where their layout is known (3.11 to 3.15): with
// the GIL, or while their thread is stopped or runs this, and never written to. Each file has:
//
//   Frame                  what a frame is
//   kReadsWithoutGil       whether all of this may be asked without the GIL too, since nothing is counted
//   current_frame(state)   the innermost of a thread; nullptr: none
//   previous_of(frame)     the next outer one; nullptr: none
//   is_incomplete(frame)   whether it belongs to no function, or to one that is not whole yet
//   code_of(frame)         its function; borrowed
//   instruction_of(frame)  offset of its instruction, as PyCode_Addr2Line takes it
//   may_begin(frame)       whether its call may not have been reported yet
//   first_local_of(frame)  its first local variable, or the cell of that; borrowed; nullptr: none
//   frame_of_generator(g)  the frame of a generator or coroutine, as an address
//   frame_of(object)       the frame of a frame object, where hooks are given these
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
