#include "log/own_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace opscope {

namespace {

constexpr int kHighDescriptor = 512;

}  // namespace

OwnFile::OwnFile(int descriptor) {
  struct stat status = {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0) return;
  device_ = status.st_dev;
  number_ = status.st_ino;
  descriptor_.store(descriptor, std::memory_order_release);
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

void OwnFile::end() {
  const int descriptor = descriptor_.exchange(-1);
  if (is(descriptor)) close(descriptor);
}

void OwnFile::move_away() {
  const int low = get();
  const int high = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, kHighDescriptor);
  if (high < 0) return;  // this process may have only so many
  descriptor_.store(high, std::memory_order_release);
  close(low);
}

bool OwnFile::take_again(int descriptor) {
  if (is(descriptor)) {
    descriptor_.store(descriptor, std::memory_order_release);
    return true;
  }
  if (descriptor >= 0) close(descriptor);
  return false;
}

bool OwnFile::is(int descriptor) const {
  struct stat status = {};
  return descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_dev == device_ &&
         status.st_ino == number_;
}

}  // namespace opscope
