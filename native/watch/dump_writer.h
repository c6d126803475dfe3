// The process that makes traces of dumps. Of one kind there is one in a folder at any time, and it takes
// dumps in turn, so that many dumps at once do not make many processes. It outlives the program. It holds a
// socket with a certain name while it looks for dumps, and looks once more after it has closed the socket; so
// a process that writes a dump first and checks the socket then need not wait. Nothing here needs the GIL.
#pragma once

#include <string>
#include <vector>

namespace opscope {

// In a spool, and written last: of which kind the process is that makes a trace of it.
inline constexpr const char* kWriterFile = "writer";

// In a spool, and locked while it is written; later by the process that makes a trace of it.
inline constexpr const char* kLockFile = ".in-use";

// There was one already.
inline constexpr int kWriterIsThere = -1;

// Hands a spool that is written over to the process, which is started if it is not there. Its last word is
// the spool's name, the others say of which kind it is. `again`: it was handed over before, and nothing is
// written into it. Returns 0, kWriterIsThere or an errno.
int hand_to_writer(const std::vector<std::string>& command, bool again = false);

}  // namespace opscope
