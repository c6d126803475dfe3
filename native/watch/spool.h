// A dump in progress: a folder with the log of the ring, the facts beside it, and the process that writes its
// trace. Nothing here needs the GIL.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watch/ring.h"

namespace opscope {

// Input of a dump for the case that Python does not respond; prepared while it still does.
struct SpoolOrder {
  std::string folder;                // folder to create
  std::string facts;                 // JSON: facts of the process for the trace
  std::string places;                // lines in generated code, one text line per file
  std::vector<std::string> command;  // its last word is the folder's name
};

// Writes the folder: facts.json, reason.json, places.jsonl, python_stacks.txt and log. Returns 0, or an errno
// after removing the folder.
int write_spool(Ring& ring, const SpoolOrder& order, const std::string& reason, void* interpreter);

// Writes the content of the ring when `window` was taken, and the facts, into an existing folder. `stacks`:
// Python stacks of the threads. Returns 0 or an errno.
int write_spool_files(const SpoolOrder& order, const std::string& reason, uint32_t window,
                      const std::string& stacks);

// Total size of files in all folders of `folder` whose names begin or end so. Does not follow links; skips
// vanished files.
uint64_t folder_bytes(const std::string& folder, const std::string& prefix, const std::string& suffix);

}  // namespace opscope
