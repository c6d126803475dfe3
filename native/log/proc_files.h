// What the kernel tells of a process, in files that are open for a moment: as files of ours, since the
// program may close all files in that moment (own_file.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace opscope {

// Of a file, its first `most` bytes; empty where it cannot be read.
std::string read_proc_file(const char* path, size_t most);

// The entries of a folder whose names are numbers, `most` of them; none where it cannot be read.
std::vector<int> numbered_entries(const char* path, size_t most);

}  // namespace opscope
