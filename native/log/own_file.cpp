#include "log/own_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace opscope {

namespace {

constexpr int kHigh = 512;  // above what programs mostly have, and so above what many of them close
constexpr int kStandard = 3;

// The signal that the kernel would send when there is something to read, if anybody asked for signals. It is
// kept with what was opened and not with its number, so that it tells two openings of one file apart.
constexpr int kMark = 61;

int mark_of(int descriptor) { return fcntl(descriptor, F_GETSIG); }

// The same under a number out of the way, marked as ours.
int placed(int low) {
  int high = fcntl(low, F_DUPFD_CLOEXEC, kHigh);
  if (high < 0 && low < kStandard) high = fcntl(low, F_DUPFD_CLOEXEC, kStandard);
  const int file = high >= 0 ? high : low;  // this process may have only so many
  fcntl(file, F_SETSIG, kMark);
  if (high >= 0 && OwnFile::is_marked(low)) close(low);
  return file;
}

}  // namespace

OwnFile::OwnFile(int descriptor) {
  struct stat status = {};
  if (descriptor < 0) return;
  const int file = placed(descriptor);
  if (fstat(file, &status) != 0) return;
  device_ = status.st_dev;
  number_ = status.st_ino;
  descriptor_.store(file, std::memory_order_release);
}

OwnFile::OwnFile(OwnFile&& other) noexcept
    : descriptor_(other.descriptor_.exchange(-1)), device_(other.device_), number_(other.number_) {}

OwnFile& OwnFile::operator=(OwnFile&& other) noexcept {
  if (this == &other) return *this;
  end();
  device_ = other.device_;
  number_ = other.number_;
  descriptor_.store(other.descriptor_.exchange(-1), std::memory_order_release);
  return *this;
}

int OwnFile::get() const {
  const int descriptor = descriptor_.load(std::memory_order_acquire);
  return is(descriptor) ? descriptor : -1;
}

int OwnFile::end() {
  const int descriptor = descriptor_.exchange(-1);
  return is(descriptor) && close(descriptor) != 0 ? errno : 0;
}

bool OwnFile::take_again(int descriptor) {
  if (descriptor < 0) return false;
  if (!is_same_file(descriptor)) {
    close(descriptor);
    return false;
  }
  descriptor_.store(placed(descriptor), std::memory_order_release);
  return true;
}

bool OwnFile::is_marked(int descriptor) {
  const int mark = mark_of(descriptor);
  return mark == kMark || (mark < 0 && errno == EINVAL);
}

bool OwnFile::is(int descriptor) const { return is_same_file(descriptor) && is_marked(descriptor); }

bool OwnFile::is_same_file(int descriptor) const {
  struct stat status = {};
  return descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_dev == device_ &&
         status.st_ino == number_;
}

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) error_ = errno;
  file_ = OwnFile(file);
}

int NewFile::get() {
  const int file = file_.get();
  if (file >= 0 || error_ != 0) return file;
  return file_.take_again(open(path_.c_str(), O_WRONLY | O_CLOEXEC)) ? file_.get() : -1;
}

int NewFile::write(std::string_view bytes) {
  if (error_ != 0) return error_;
  constexpr size_t kAtOnce = size_t{1} << 20;
  while (!bytes.empty()) {
    const ssize_t written = pwrite(get(), bytes.data(), std::min(bytes.size(), kAtOnce), size_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    size_ += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int NewFile::end() { return error_ != 0 ? error_ : file_.end(); }

}  // namespace opscope
