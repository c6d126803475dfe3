#include "watch/spool.h"

#include <Python.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "log/log_copy.h"
#include "log/own_file.h"
#include "log/recorder.h"
#include "python/python_stacks.h"
#include "watch/dump_writer.h"

namespace opscope {

namespace {

constexpr const char* kFiles[] = {"facts.json", "reason.json", "python_stacks.txt", "log", "places.jsonl",
                                  kWholeFile,   kLockFile};

// Calls write(file) with a new file in the folder.
template <typename Function>
int with_file(const std::string& folder, const char* name, Function&& write) {
  NewFile file(folder + "/" + name);
  if (file.error() != 0) return file.error();
  const int error = write(file);
  const int error_at_end = file.end();
  return error != 0 ? error : error_at_end;
}

int write_text(const std::string& folder, const char* name, const std::string& text) {
  return with_file(folder, name, [&](NewFile& file) { return file.write(text); });
}

// Reaps a child that has no exit signal; kills it after a timeout.
void reap(pid_t child) {
  constexpr int kMost_ms = 2000;
  for (int waited_ms = 0; waitpid(child, nullptr, __WALL | WNOHANG) == 0; waited_ms += 5) {
    if (waited_ms == kMost_ms) kill(child, SIGKILL);
    usleep(5000);
  }
}

// Runs in a copy of the process: without the GIL, stacks can change during the read, which may crash.
int write_python_stacks(const std::string& folder, void* interpreter) {
  return with_file(folder, kFiles[2], [&](NewFile& file) {
    const int descriptor = file.get();
    const auto child = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
    if (child < 0) return errno;
    if (child == 0) {
      // A crash must end only this copy: no handlers of the program, no core file.
      prctl(PR_SET_DUMPABLE, 0);
      for (const int crash : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) signal(crash, SIG_DFL);
      write_stacks_of_copy(descriptor, static_cast<PyInterpreterState*>(interpreter));
      _exit(0);
    }
    reap(child);
    return 0;
  });
}

int write_window(const std::string& folder, uint32_t window) {
  Recorder& recorder = Recorder::instance();
  const ReadLock lock(recorder);
  const auto taken = recorder.window(window);
  if (taken == nullptr) return ENOENT;
  return with_file(folder, kFiles[3], [&](NewFile& file) {
    return write_log(recorder.view_of(*taken), [&file](std::string_view bytes) { return file.write(bytes); });
  });
}

int write_known(const SpoolOrder& order, const std::string& reason, uint32_t window) {
  int error = write_text(order.folder, kFiles[0], order.facts);
  if (error == 0) error = write_text(order.folder, kFiles[1], reason);
  if (error == 0) error = write_text(order.folder, kFiles[4], order.places);
  return error == 0 ? write_window(order.folder, window) : error;
}

void remove_spool(const std::string& folder) {
  for (const char* name : kFiles) unlink((folder + "/" + name).c_str());
  rmdir(folder.c_str());
}

}  // namespace

int write_spool(Ring& ring, const SpoolOrder& order, const std::string& reason, void* interpreter) {
  const uint32_t window = ring.snapshot();
  if (window == 0) return ENOENT;
  int error = mkdir(order.folder.c_str(), 0700) == 0 ? 0 : errno;
  // A copy of the process inherits the lock, so closing the file is not enough.
  const auto write = [&](NewFile& lock) {
    flock(lock.get(), LOCK_EX | LOCK_NB);
    int failed = write_python_stacks(order.folder, interpreter);
    if (failed == 0) failed = write_known(order, reason, window);
    flock(lock.get(), LOCK_UN);
    return failed;
  };
  if (error == 0) error = with_file(order.folder, kLockFile, write);
  Recorder::instance().discard_window(window);
  if (error != 0 && error != EEXIST) remove_spool(order.folder);
  return error;
}

int write_spool_files(const SpoolOrder& order, const std::string& reason, uint32_t window,
                      const std::string& stacks) {
  const int error = write_text(order.folder, kFiles[2], stacks);
  return error == 0 ? write_known(order, reason, window) : error;
}

uint64_t folder_bytes(const std::string& folder, const std::string& prefix, const std::string& suffix) {
  namespace files = std::filesystem;
  uint64_t total = 0;
  std::error_code error;
  for (files::directory_iterator outer(folder, error), end; !error && outer != end; outer.increment(error)) {
    const std::string name = outer->path().filename().string();
    if (!name.starts_with(prefix) && !name.ends_with(suffix)) continue;
    std::error_code vanished;
    for (files::recursive_directory_iterator inner(outer->path(), vanished), last; !vanished && inner != last;
         inner.increment(vanished)) {
      std::error_code unknown;
      if (inner->is_directory(unknown)) continue;
      const auto size = inner->file_size(unknown);
      if (!unknown) total += size;
    }
  }
  return total;
}

}  // namespace opscope
