// What the kernel tells of a process, in files that are open for a moment: as files of ours, since the
// program may close all files in that moment (own_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "log/own_file.h"

namespace opscope {

// Of a file, its first `most` bytes; empty where it cannot be read.
std::string read_proc_file(const char* path, size_t most);

// The entries of a folder whose names are numbers.
class NumberedEntries {
 public:
  explicit NumberedEntries(const char* path);
  NumberedEntries(const NumberedEntries&) = delete;
  NumberedEntries& operator=(const NumberedEntries&) = delete;

  bool is_there() const { return folder_.get() >= 0; }
  // The next one; -1 at the end.
  int next();

 private:
  bool read_more();

  OwnFile folder_;
  alignas(uint64_t) char entries_[4096];
  size_t at_ = 0, end_ = 0;
};

}  // namespace opscope
