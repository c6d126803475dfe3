// A file of opscope in the program's process. The program may close every descriptor and open other files
// under the same numbers; opscope then must not read, write or close them. Nor may opscope's file take the
// number of standard input, output or error, which the program uses as its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace opscope {

// Identity of an open file (not of its descriptor's number).
class FileIdentity {
 public:
  FileIdentity() = default;  // of no file
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
  OwnFile() = default;  // no file
  // Owns a file just opened, under a number that programs rarely use; no file for -1.
  explicit OwnFile(int descriptor);
  OwnFile(OwnFile&& other) noexcept;
  OwnFile& operator=(OwnFile&& other) noexcept;
  ~OwnFile() { end(); }

  // [MT] Its descriptor; -1 if there is none, or another file has that number now.
  int get() const;
  // [MT] Closes the file if it is still there. Returns 0 or an errno.
  int end();
  // Another owner closes the file.
  void give_up() { descriptor_ = -1; }
  // Identity of the file, even after it was closed.
  const FileIdentity& identity() const { return identity_; }

 private:
  std::atomic<int> descriptor_{-1};
  FileIdentity identity_;
};

// A new file, written from begin to end.
class NewFile {
 public:
  explicit NewFile(const std::string& path);

  // 0, or the errno of its creation.
  int error() const { return error_; }
  // Returns 0 or an errno.
  int write(std::string_view bytes);
  int end() { return error_ != 0 ? error_ : file_.end(); }
  // Its descriptor, or -1 if it is not open.
  int get() const { return file_.get(); }

 private:
  OwnFile file_;
  int error_ = 0;
};

// Reads /proc through OwnFile, because the program may close all files during the read.

// First `most` bytes of a file; empty if it is unreadable.
std::string read_proc_file(const char* path, size_t most);

// Up to `most` entries of a folder whose names are numbers; empty if it is unreadable.
std::vector<int> numbered_entries(const char* path, size_t most);

}  // namespace opscope
