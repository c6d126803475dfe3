// What Python calls a thread.
#pragma once

#include <string>

namespace opscope {

// Of the calling thread, as `threading` has it; empty where it does not know the thread, for the main
// thread, and where this thread has no GIL now. Runs no Python code and leaves a raised error as it is.
std::string python_thread_name();

}  // namespace opscope
