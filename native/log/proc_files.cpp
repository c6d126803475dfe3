#include "log/proc_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace opscope {

namespace {

// As the kernel hands it out; the C library has no name for it.
struct Entry {
  uint64_t inode;
  int64_t offset;
  uint16_t bytes;
  uint8_t kind;
  char name[1];
};

}  // namespace

std::string read_proc_file(const char* path, size_t most) {
  const OwnFile file(open(path, O_RDONLY | O_CLOEXEC));
  std::string text(most, '\0');
  const ssize_t length = pread(file.get(), text.data(), text.size(), 0);
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return text;
}

NumberedEntries::NumberedEntries(const char* path)
    : folder_(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

int NumberedEntries::next() {
  while (at_ < end_ || read_more()) {
    Entry entry;
    const char* const place = entries_ + at_;
    std::memcpy(&entry, place, offsetof(Entry, name));
    at_ += entry.bytes;
    const char* const name = place + offsetof(Entry, name);
    if (name[0] >= '0' && name[0] <= '9') return static_cast<int>(std::strtol(name, nullptr, 10));
  }
  return -1;
}

bool NumberedEntries::read_more() {
  const long bytes = syscall(SYS_getdents64, folder_.get(), entries_, sizeof(entries_));
  at_ = 0;
  end_ = bytes > 0 ? static_cast<size_t>(bytes) : 0;
  return bytes > 0;
}

}  // namespace opscope
