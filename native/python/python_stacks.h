// What all threads are running, as text for people.
#pragma once

#include <Python.h>

namespace opscope {

// In a copy of the process, where nothing runs but this: writes what the threads of an interpreter were
// running, as faulthandler does. Takes no lock and no memory, for somebody may have been in the middle of
// either; a thread that was in the middle of a call may make this crash. Writes nothing where this Python's
// frames are not known and faulthandler's own function cannot be had.
void write_stacks_of_copy(int descriptor, PyInterpreterState* interpreter);

}  // namespace opscope
