#include "sampler/kernel_counts.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

namespace opscope {

namespace {

constexpr size_t kMostKeptOpen = 32;
constexpr size_t kFilesPerThread = 3;
constexpr size_t kShareKeptOpen = 20;  // one of this many descriptors
constexpr size_t kMostProcesses = 64;
constexpr size_t kMostParents = 64;  // threads of a process whose children are read

int open_of(pid_t thread, const char* name) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/task/%d/%s", static_cast<int>(thread), name);
  return open(path, O_RDONLY | O_CLOEXEC);
}

// Address range of CPython's global object, which contains the GIL of the main interpreter: a wait on an
// address in this range is a wait for the GIL. {0, 0} if the object is not found.
std::pair<uintptr_t, uintptr_t> place_of_gil() {
  void* const object = dlsym(RTLD_DEFAULT, "_PyRuntime");
  Dl_info info{};
  ElfW(Sym)* symbol = nullptr;
  if (object == nullptr || dladdr1(object, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr) {
    return {0, 0};
  }
  const auto begin = reinterpret_cast<uintptr_t>(object);
  return {begin, begin + symbol->st_size};
}

bool is_gil(uintptr_t address) {
  static const std::pair<uintptr_t, uintptr_t> place = place_of_gil();
  return address >= place.first && address < place.second;
}

// The kernel lists children by the thread that started them.
void add_children(pid_t process, std::vector<pid_t>& found) {
  constexpr size_t kMostDigits = 12;
  char path[64];
  const int number = static_cast<int>(process);
  std::snprintf(path, sizeof(path), "/proc/%d/task", number);
  std::vector<pid_t> children;
  for (const pid_t thread : numbered_entries(path, kMostParents)) {
    std::snprintf(path, sizeof(path), "/proc/%d/task/%d/children", number, static_cast<int>(thread));
    const std::string text = read_proc_file(path, kMostProcesses * kMostDigits);
    const char* rest = text.c_str();
    char* end = nullptr;
    for (long child = std::strtol(rest, &end, 10); end != rest; child = std::strtol(rest, &end, 10)) {
      children.push_back(static_cast<pid_t>(child));
      rest = end;
    }
  }
  if (found.size() + children.size() <= kMostProcesses)
    found.insert(found.end(), children.begin(), children.end());
}

// Waits for a CPU in the text of a schedstat file.
int64_t delayed_ns_in(const char* text) {
  long long ran = 0, waited = 0;
  return std::sscanf(text, "%lld %lld", &ran, &waited) == 2 ? waited : 0;
}

// Waits of the main thread, and of the other thread that waited longest: a worker's main thread hands its
// batch to a thread that writes it to a pipe. Threads of opscope do not count.
int64_t delayed_ns_of_process(pid_t process) {
  constexpr size_t kMostThreads = 16;
  char path[64];
  const int number = static_cast<int>(process);
  std::snprintf(path, sizeof(path), "/proc/%d/task", number);
  int64_t own = 0, longest = 0;
  for (const pid_t thread : numbered_entries(path, kMostThreads)) {
    std::snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", number, static_cast<int>(thread));
    if (read_proc_file(path, sizeof(path)).rfind("opscope", 0) == 0) continue;
    std::snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", number, static_cast<int>(thread));
    const int64_t delayed = delayed_ns_in(read_proc_file(path, sizeof(path)).c_str());
    if (thread == process) {
      own = delayed;
    } else {
      longest = std::max(longest, delayed);
    }
  }
  return own + longest;
}

using Arguments = std::array<uintptr_t, 4>;  // first arguments of a system call

// A wait for zero files is a sleep: time.sleep() uses it until Python 3.10.
WaitsFor of_wait_for_files(bool there_are_any) {
  return there_are_any ? WaitsFor::kReadiness : WaitsFor::kTimer;
}

WaitsFor of_call(long number, const Arguments& arguments) {
  switch (number) {
    case SYS_futex:
      return is_gil(arguments[0]) ? WaitsFor::kGil : WaitsFor::kLock;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_rt_sigtimedwait:
      return WaitsFor::kTimer;
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll:
      return of_wait_for_files(arguments[1] != 0);
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6:
      return of_wait_for_files(arguments[0] != 0 && (arguments[1] | arguments[2] | arguments[3]) != 0);
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
      return WaitsFor::kReadiness;
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_sync_file_range:
    case SYS_openat:
    case SYS_flock:
      return WaitsFor::kTransfer;
    case SYS_wait4:
    case SYS_waitid:
      return WaitsFor::kProcess;
    default:
      return WaitsFor::kOther;
  }
}

// The text is "running", or the number of the system call and its arguments.
WaitsFor waits_for(const ThreadFile& call, char state) {
  char text[256];
  if (state == 'R') return WaitsFor::kNothing;
  if (!call.read(text, sizeof(text))) return state == 'D' ? WaitsFor::kDisk : WaitsFor::kOther;
  if (text[0] == 'r') return WaitsFor::kNothing;
  char* rest = nullptr;
  const long number = std::strtol(text, &rest, 10);
  if (number < 0) return state == 'D' ? WaitsFor::kDisk : WaitsFor::kNothing;
  Arguments arguments{};
  for (uintptr_t& argument : arguments) argument = std::strtoull(rest, &rest, 16);
  return of_call(number, arguments);
}

}  // namespace

ThreadFile::ThreadFile(pid_t thread, const char* name, bool keeps_open)
    : thread_(thread), name_(name), file_(keeps_open ? open_of(thread, name) : -1) {}

bool ThreadFile::read(char* text, size_t size) const {
  const int kept = file_.get();
  const OwnFile own(kept >= 0 ? -1 : open_of(thread_, name_));
  const ssize_t length = pread(kept >= 0 ? kept : own.get(), text, size - 1, 0);
  if (length <= 0) return false;
  text[length] = '\0';
  return true;
}

CountedThread::CountedThread(pid_t thread, bool keeps_open)
    : thread_(thread),
      keeps_open_(keeps_open),
      schedule_(thread, "schedstat", keeps_open),
      stat_(thread, "stat", keeps_open),
      call_(thread, "syscall", keeps_open) {}

int64_t CountedThread::computed_ns() const {
  constexpr clockid_t kOfThread = 4, kScheduled = 2;  // CPUCLOCK_PERTHREAD_MASK, CPUCLOCK_SCHED of Linux
  timespec time{};
  const auto number = static_cast<unsigned>(std::abs(thread_));
  const clockid_t clock = static_cast<clockid_t>(~number << 3U) | (thread_ < 0 ? 0 : kOfThread) | kScheduled;
  if (clock_gettime(clock, &time) != 0) return -1;
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

bool CountedThread::read(int64_t computed_ns, KernelCounts& counts) const {
  char text[1024];
  counts.computed_ns = computed_ns;
  if (thread_ < 0) {  // the state of another process is unknown
    counts.delayed_ns = delayed_ns_of_process(-thread_);
    counts.waits_for = WaitsFor::kOther;
    return true;
  }
  if (schedule_.read(text, sizeof(text))) counts.delayed_ns = delayed_ns_in(text);
  if (!stat_.read(text, sizeof(text))) return false;
  // The name is in parentheses and may contain any character.
  const char* const fields = std::strrchr(text, ')');
  if (fields == nullptr) return false;
  char state = 0;
  long long minor = 0, major = 0, user = 0, system = 0;
  if (std::sscanf(fields, ") %c %*d %*d %*d %*d %*d %*u %lld %*d %lld %*d %lld %lld", &state, &minor, &major,
                  &user, &system) != 5) {
    return false;
  }
  static const long ticks = sysconf(_SC_CLK_TCK);
  counts.faults = minor + major;
  counts.system_ns = system * (1'000'000'000 / (ticks > 0 ? ticks : 100));
  counts.waits_for = waits_for(call_, state);
  return true;
}

std::vector<pid_t> processes_beside(bool with_siblings) {
  std::vector<pid_t> found;
  const pid_t self = getpid();
  add_children(self, found);
  const std::vector<pid_t> children = found;  // a server that forks workers has them as children
  for (const pid_t child : children) add_children(child, found);
  if (with_siblings) add_children(getppid(), found);
  found.erase(std::remove(found.begin(), found.end(), self), found.end());
  return found;
}

size_t most_threads_kept_open() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const auto files = static_cast<size_t>(limit.rlim_cur) / kShareKeptOpen;  // no limit is a large number
  return std::min(files / kFilesPerThread, kMostKeptOpen);
}

}  // namespace opscope
