#include "log/proc_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "log/own_file.h"

namespace opscope {

std::string read_proc_file(const char* path, size_t most) {
  const OwnFile file(open(path, O_RDONLY | O_CLOEXEC));
  std::string text(most, '\0');
  const ssize_t length = pread(file.get(), text.data(), text.size(), 0);
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return text;
}

std::vector<int> numbered_entries(const char* path, size_t most) {
  OwnFile file(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<int> found;
  DIR* const folder = fdopendir(file.get());
  if (folder == nullptr) return found;
  while (const dirent* const entry = found.size() < most ? readdir(folder) : nullptr) {
    const char first = entry->d_name[0];
    if (first >= '0' && first <= '9') found.push_back(std::atoi(entry->d_name));
  }
  file.give_up();
  closedir(folder);
  return found;
}

}  // namespace opscope
