// A dump on its way: a folder with the log of the ring and what is known beside it, and the process that
// makes a trace of it. Nothing here needs the GIL.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watch/ring.h"

namespace opscope {

// What a dump is written from where Python does not answer; prepared while it still does.
struct SpoolOrder {
  std::string folder;                // to be made
  std::string facts;                 // JSON: what the trace says of its process
  std::string places;                // in generated code, a line for each file
  std::vector<std::string> command;  // has the folder's name as its last word
};

// Writes the folder: facts.json, reason.json, places.jsonl, python_stacks.txt and log. Returns 0, or an
// errno; then nothing of it stays.
int write_spool(Ring& ring, const SpoolOrder& order, const std::string& reason, void* interpreter);

// Writes into a folder that is there what the ring had when `window` was taken, and what is known beside it.
// `stacks`: what the threads were running in Python. Returns 0, or an errno.
int write_spool_files(const SpoolOrder& order, const std::string& reason, uint32_t window,
                      const std::string& stacks);

// Of the files in all folders within `folder` whose names begin or end so. Links are not followed, and what
// vanishes meanwhile counts nothing.
uint64_t folder_bytes(const std::string& folder, const std::string& prefix, const std::string& suffix);

}  // namespace opscope
