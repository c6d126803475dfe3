// A file of ours in the program's process. The program may close all files that it might have opened, and
// open others under the same numbers: such a one is none of ours to read, to write or to close. Nor has one
// of ours the number of standard input, output or error, which the program takes for what it left there.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace opscope {

// Which file a descriptor is of: not the number, but what was opened.
class FileIdentity {
 public:
  FileIdentity() = default;  // of none
  explicit FileIdentity(int descriptor);
  bool is_of(int descriptor) const { return descriptor >= 0 && *this == FileIdentity(descriptor); }
  bool operator==(const FileIdentity&) const = default;

 private:
  bool is_open_ = false;
  dev_t device_ = 0;
  ino_t number_ = 0;
};

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
  // Somebody else closes it.
  void give_up() { descriptor_ = -1; }
  // Which file it is, or was.
  const FileIdentity& identity() const { return identity_; }

 private:
  std::atomic<int> descriptor_{-1};
  FileIdentity identity_;
};

// A new file that is written from its beginning to its end.
class NewFile {
 public:
  explicit NewFile(const std::string& path);

  // 0, or why there is none: an errno.
  int error() const { return error_; }
  // Likewise.
  int write(std::string_view bytes);
  int end() { return error_ != 0 ? error_ : file_.end(); }
  // Its descriptor; -1 where it is not open.
  int get() const { return file_.get(); }

 private:
  OwnFile file_;
  int error_ = 0;
};

// What the kernel tells of a process, in files that are open for a moment: as files of ours, since the
// program may close all files in that moment.

// Of a file, its first `most` bytes; empty where it cannot be read.
std::string read_proc_file(const char* path, size_t most);

// The entries of a folder whose names are numbers, `most` of them; none where it cannot be read.
std::vector<int> numbered_entries(const char* path, size_t most);

}  // namespace opscope
