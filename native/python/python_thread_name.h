// Python's name of a thread.
#pragma once

#include <string>

namespace opscope {

// Name of the calling thread in `threading`. Empty if `threading` does not know the thread, for the main
// thread, and without the GIL. Runs no Python code and preserves a raised error.
std::string python_thread_name();

}  // namespace opscope
