// The process that writes the trace of a dump. It outlives the program; processes of one folder run one after
// another. Nothing here needs the GIL.
#pragma once

#include <string>
#include <vector>

namespace opscope {

// File in a spool that is written last.
inline constexpr const char* kWholeFile = "whole";

// File in a spool that is locked while the spool is written, and later by the process that writes its trace.
inline constexpr const char* kLockFile = ".in-use";

// Starts the process for a complete spool, whose name is the command's last word. Returns 0 or an errno.
int hand_to_writer(const std::vector<std::string>& command);

}  // namespace opscope
