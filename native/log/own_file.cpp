#include "log/own_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace opscope {

namespace {

constexpr int kHigh = 512;  // above the descriptors that most programs use or close in bulk
constexpr int kStandard = 3;

// A duplicate of the descriptor with a high number.
int placed(int low) {
  int high = fcntl(low, F_DUPFD_CLOEXEC, kHigh);
  if (high < 0 && low < kStandard) high = fcntl(low, F_DUPFD_CLOEXEC, kStandard);
  if (high < 0) return low;  // this process may have too low a limit
  close(low);
  return high;
}

}  // namespace

FileIdentity::FileIdentity(int descriptor) {
  struct stat status = {};
  is_open_ = fstat(descriptor, &status) == 0;
  device_ = status.st_dev;
  number_ = status.st_ino;
}

OwnFile::OwnFile(int descriptor) : descriptor_(descriptor < 0 ? -1 : placed(descriptor)) {
  identity_ = FileIdentity(descriptor_);
}

OwnFile::OwnFile(OwnFile&& other) noexcept
    : descriptor_(other.descriptor_.exchange(-1)), identity_(other.identity_) {}

OwnFile& OwnFile::operator=(OwnFile&& other) noexcept {
  if (this == &other) return *this;
  end();
  identity_ = other.identity_;
  descriptor_.store(other.descriptor_.exchange(-1), std::memory_order_release);
  return *this;
}

int OwnFile::get() const {
  const int descriptor = descriptor_.load(std::memory_order_acquire);
  return identity_.is_of(descriptor) ? descriptor : -1;
}

int OwnFile::end() {
  const int descriptor = descriptor_.exchange(-1);
  return identity_.is_of(descriptor) && close(descriptor) != 0 ? errno : 0;
}

NewFile::NewFile(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) error_ = errno;
  file_ = OwnFile(file);
}

int NewFile::write(std::string_view bytes) {
  if (error_ != 0) return error_;
  constexpr size_t kAtOnce = size_t{1} << 20;
  while (!bytes.empty()) {
    const ssize_t written = ::write(get(), bytes.data(), std::min(bytes.size(), kAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

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
