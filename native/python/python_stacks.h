// Stacks of all threads as readable text.
#pragma once

#include <Python.h>

namespace opscope {

// In a copy of the process with this thread alone: writes the stacks of an interpreter's threads, as
// faulthandler does. Takes no lock and no memory, because a thread of the original may have been changing
// either; a thread that was inside a call may make this crash. Writes nothing if this Python's frames are
// unknown and faulthandler's function is missing.
void write_stacks_of_copy(int descriptor, PyInterpreterState* interpreter);

}  // namespace opscope
