// A file of ours in the program's process. The program may close all files that it might have opened, and
// open others under the same numbers: such a one is none of ours to read, to write or to close. Nor has one
// of ours the number of standard input, output or error, which the program takes for what it left there.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <string_view>

namespace opscope {

class OwnFile {
 public:
  OwnFile() = default;  // none
  // Owns what was opened just now, under a number out of the program's way; none for -1.
  explicit OwnFile(int descriptor);
  OwnFile(OwnFile&& other) noexcept;
  OwnFile& operator=(OwnFile&& other) noexcept;
  ~OwnFile() { end(); }

  // [MT] Its descriptor; -1 where there is none, or another file has that number by now.
  int get() const;
  // [MT] Closes it, if it is there. Returns 0, or an errno.
  int end();
  // [MT] As it was, where `descriptor` was opened just now and is the same file; else closes that. Whether it
  // is.
  bool take_again(int descriptor);
  // Whether this is a file of somebody's OwnFile; true where the kernel does not tell.
  static bool is_marked(int descriptor);

 private:
  bool is(int descriptor) const;
  bool is_same_file(int descriptor) const;

  std::atomic<int> descriptor_{-1};
  // Which file it is. The program may have opened the same one.
  dev_t device_ = 0;
  ino_t number_ = 0;
};

// A new file that is written from its beginning to its end, also where the program closes it meanwhile.
class NewFile {
 public:
  explicit NewFile(std::string path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // 0, or why there is none: an errno.
  int error() const { return error_; }
  // Likewise.
  int write(std::string_view bytes);
  int end();
  // Its descriptor for now; -1 where it cannot be had.
  int get();

 private:
  const std::string path_;
  OwnFile file_;
  int error_ = 0;
  off_t size_ = 0;
};

}  // namespace opscope
