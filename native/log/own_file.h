// A file of ours in the program's process. The program may close all files that it might have opened, and
// open others under the same numbers: such a one is none of ours to read, to write or to close.
#pragma once

#include <sys/types.h>

#include <atomic>

namespace opscope {

class OwnFile {
 public:
  OwnFile() = default;  // none
  // Owns what was opened just now; none for -1.
  explicit OwnFile(int descriptor);
  OwnFile(OwnFile&& other) noexcept;
  OwnFile& operator=(OwnFile&& other) noexcept;
  ~OwnFile() { end(); }

  // [MT] Its descriptor; -1 where there is none, or another file has that number by now.
  int get() const;
  // [MT] Closes it, if it is there.
  void end();
  // Under a higher number, out of the way of programs that close those they might have opened.
  void move_away();
  // As it was, where `descriptor` was opened just now and is the same file; else closes that. Whether it is.
  bool take_again(int descriptor);

 private:
  bool is(int descriptor) const;

  std::atomic<int> descriptor_{-1};
  // Which file it is. What has no file of its own, as eventfd, has no number of its own either.
  dev_t device_ = 0;
  ino_t number_ = 0;
};

}  // namespace opscope
