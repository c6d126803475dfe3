// The process that makes the trace of a dump; processes of one folder do so in turn. It outlives the program.
// Nothing here needs the GIL.
#pragma once

#include <string>
#include <vector>

namespace opscope {

// In a spool, and written last.
inline constexpr const char* kWholeFile = "whole";

// In a spool, and locked while it is written; later by the process that makes a trace of it.
inline constexpr const char* kLockFile = ".in-use";

// Begins the process for a spool that is written; its last word is the spool's name. Returns 0 or an errno.
int hand_to_writer(const std::vector<std::string>& command);

}  // namespace opscope
