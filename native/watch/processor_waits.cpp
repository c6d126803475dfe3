#include "watch/processor_waits.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "log/clock.h"
#include "log/proc_files.h"

namespace opscope {

namespace {

constexpr int64_t kShortestReadPause_ns = 2'000'000;
constexpr int64_t kLongestReadPause_ns = 20'000'000;  // longer steps are always told from those before
constexpr int64_t kPausePerRead = 1'000;              // so a thousandth of the time
constexpr int64_t kStale_ns = 10'000'000;             // that counts may be behind, of threads that run
constexpr size_t kMostCountsOpen = 64;                // whose files are kept open
constexpr size_t kShareOfOpenFiles = 20;              // one in so many of those that the process may have

pid_t calling_thread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

int open_file_of_counts(pid_t thread) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", static_cast<int>(thread));
  return open(path, O_RDONLY | O_CLOEXEC);
}

OwnFile open_counts(pid_t thread) { return OwnFile(open_file_of_counts(thread)); }

// The calling thread's, which the program may have closed.
void keep_open(OwnFile& file) {
  if (file.get() < 0) file.take_again(open_file_of_counts(calling_thread()));
}

// False where the thread has ended, or where nobody counts.
bool read_counts(const OwnFile& file, int64_t& ran_ns, int64_t& waited_ns) {
  char text[96];
  const ssize_t length = pread(file.get(), text, sizeof(text) - 1, 0);
  if (length <= 0) return false;
  text[length] = '\0';
  char* rest = nullptr;
  ran_ns = std::strtoll(text, &rest, 10);
  waited_ns = std::strtoll(rest, nullptr, 10);
  return ran_ns > 0;  // a thread that was never on a processor cannot be asked
}

size_t most_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return std::min(static_cast<size_t>(limit.rlim_cur) / kShareOfOpenFiles, kMostCountsOpen);
}

int64_t allowed_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

}  // namespace

ProcessorWaits::~ProcessorWaits() { end(); }

void ProcessorWaits::end() {
  const std::lock_guard lock(mutex_);
  threads_.clear();
  has_ended_ = true;
  recorder_file_.end();
}

void ProcessorWaits::find_threads() {
  NumberedEntries threads("/proc/self/task");
  std::set<pid_t> there;
  for (int number; (number = threads.next()) >= 0;) there.insert(number);
  if (there.empty()) return;
  const size_t most = most_files();
  const int64_t processors = allowed_processors();
  const std::lock_guard lock(mutex_);
  processors_ = processors;
  // Of those whose files the program has closed, too: they are opened again.
  std::erase_if(threads_, [&](const Thread& thread) {
    return there.count(thread.number) == 0 || thread.file.get() < 0;
  });
  for (const pid_t number : there) {
    if (threads_.size() < most && left_out_.count(number) == 0 && find(number) == nullptr) add(number);
  }
}

void ProcessorWaits::add(pid_t number) {
  OwnFile file = open_counts(number);
  if (file.get() >= 0) threads_.push_back({number, std::move(file)});
}

void ProcessorWaits::leave_out_this_thread() {
  const std::lock_guard lock(mutex_);
  const pid_t number = calling_thread();
  left_out_.insert(number);
  std::erase_if(threads_, [&](const Thread& thread) { return thread.number == number; });
}

void ProcessorWaits::leave_out_this_thread_of_python() {
  leave_out_this_thread();
  const std::lock_guard lock(mutex_);
  if (!has_ended_) recorder_file_ = open_counts(calling_thread());
  knows_recorder_ = !has_ended_;
}

void ProcessorWaits::wants_gil() {
  if (knows_recorder_ && !has_ended_) keep_open(recorder_file_);
  int64_t ran_ns = 0, waited_ns = 0;
  if (read_counts(recorder_file_, ran_ns, waited_ns)) waited_before_ns_ = waited_ns;
}

void ProcessorWaits::leaves_gil() {
  const int64_t until_now_ns = waited_with_gil_ns();
  waited_before_ns_ = -1;
  waited_until_now_ns_ = until_now_ns;
}

// In all, up to now. Who reads it at the moment when the recorder's thread goes counts a wait a little later.
int64_t ProcessorWaits::waited_with_gil_ns() const {
  const int64_t before_ns = waited_before_ns_, known_ns = waited_until_now_ns_;
  int64_t ran_ns = 0, waited_ns = 0;
  if (before_ns < 0 || !read_counts(recorder_file_, ran_ns, waited_ns)) return known_ns;
  return known_ns + std::max<int64_t>(waited_ns - before_ns, 0);
}

ProcessorWaits::Thread* ProcessorWaits::find(pid_t number) {
  const auto found =
      std::find_if(threads_.begin(), threads_.end(), [&](const Thread& one) { return one.number == number; });
  return found == threads_.end() ? nullptr : &*found;
}

StepWaits ProcessorWaits::of_step(int64_t began_ns, int64_t now_ns, int64_t typical_ns) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || has_ended_) return {};
  if (now_ns - read_at_ns_ < pause_ns_) return {true};
  const bool is_first = read_at_ns_ == 0;
  const int64_t computed_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  Since own{-1, 0};
  read(own);
  // It may have been kept waiting since the step ended, which is counted too.
  const int64_t read_at_ns = clock_ns(CLOCK_MONOTONIC);
  const int64_t since_ns = read_at_ns - std::exchange(read_at_ns_, read_at_ns);
  pause_ns_ = pause_after(clock_ns(CLOCK_THREAD_CPUTIME_ID) - computed_ns);
  return is_first || own.ran_ns < 0 ? StepWaits{}
                                    : caused_by_others(own, began_ns, now_ns, since_ns, typical_ns);
}

// The least that a reading took lately: one that finds nothing in the caches says nothing of the next.
int64_t ProcessorWaits::pause_after(int64_t cost_ns) {
  constexpr int64_t kForgetting = 16;
  cost_ns_ = cost_ns_ == 0 ? cost_ns : std::min(cost_ns, cost_ns_ + cost_ns_ / kForgetting + 1);
  return std::clamp(cost_ns_ * kPausePerRead, kShortestReadPause_ns, kLongestReadPause_ns);
}

// What every thread did since it was last read; `own` is the calling one.
void ProcessorWaits::read(Since& own) {
  const pid_t number = calling_thread();
  if (find(number) == nullptr) add(number);
  others_.clear();
  for (Thread& thread : threads_) {
    Since now{-1, 0};
    if (!read_counts(thread.file, now.ran_ns, now.waited_ns)) now.ran_ns = -1;
    const Since before = std::exchange(thread.read, now);
    if (before.ran_ns < 0 || now.ran_ns < 0) continue;
    const Since since{now.ran_ns - before.ran_ns, now.waited_ns - before.waited_ns};
    if (thread.number == number) {
      own = since;
    } else {
      others_.push_back(since);
    }
  }
  const int64_t recorder_ns = waited_with_gil_ns();
  recorder_waited_ns_ = std::max<int64_t>(recorder_ns - std::exchange(recorder_read_ns_, recorder_ns), 0);
  const int64_t process_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  unseen_ns_ = process_ns - std::exchange(process_ran_ns_, process_ns) - std::max<int64_t>(own.ran_ns, 0);
  for (const Since& other : others_) unseen_ns_ -= other.ran_ns;
  unseen_ns_ = std::max<int64_t>(unseen_ns_ - kStale_ns, 0);
}

int64_t waited_for_own_threads_ns(int64_t ran_ns, int64_t waited_ns, int64_t processors, int64_t since_ns) {
  const int64_t all_ns = std::max<int64_t>(processors * since_ns, 1);
  const double share = std::min(static_cast<double>(ran_ns) / static_cast<double>(all_ns), 1.0);
  const auto most_ns = static_cast<int64_t>(share * static_cast<double>(waited_ns));
  return std::clamp<int64_t>(ran_ns + waited_ns - all_ns, 0, most_ns);
}

// What threads did not wait for each other they waited because others had processors. A step is later by what
// its own thread waited, and by what another did for which it waited: asleep, or trying again and again, but
// not for longer than it was late. So it is by what the recorder's thread of Python waited, where that kept
// the GIL from it.
StepWaits ProcessorWaits::caused_by_others(const Since& own, int64_t began_ns, int64_t now_ns,
                                           int64_t since_ns, int64_t typical_ns) const {
  int64_t ran_ns = own.ran_ns, waited_ns = own.waited_ns;
  int64_t longest_ns = recorder_waited_ns_;
  for (const Since& other : others_) {
    ran_ns += other.ran_ns;
    waited_ns += other.waited_ns;
    longest_ns = std::max(longest_ns, other.waited_ns);
  }
  // Of threads that are new, and of those that have ended, nobody knows what they waited: as this one did.
  const double waits =
      static_cast<double>(own.waited_ns) / static_cast<double>(std::max(own.ran_ns, kStale_ns));
  const auto unseen_waited_ns = static_cast<int64_t>(static_cast<double>(unseen_ns_) * waits);
  ran_ns += unseen_ns_;
  waited_ns += unseen_waited_ns;
  const int64_t by_own_ns = waited_for_own_threads_ns(ran_ns, waited_ns, processors_, since_ns);
  const double share =
      waited_ns == 0 ? 1 : 1 - static_cast<double>(by_own_ns) / static_cast<double>(waited_ns);
  const int64_t took_ns = now_ns - began_ns;
  // What was counted between the last reading and the step's beginning is a little of the whole.
  const double part = std::min(static_cast<double>(took_ns) / static_cast<double>(since_ns), 1.0);
  const auto in_step = [&](int64_t ns) { return static_cast<int64_t>(part * static_cast<double>(ns)); };
  const int64_t own_waited_ns = std::min(in_step(own.waited_ns), took_ns);
  const int64_t late_ns = std::max<int64_t>(took_ns - own_waited_ns - typical_ns, 0);
  const auto others_ns = static_cast<int64_t>(
      share * static_cast<double>(own_waited_ns + std::min(in_step(longest_ns), late_ns)));
  return {true, own_waited_ns, others_ns, std::min(in_step(own.ran_ns), took_ns)};
}

OwnWaits::OwnWaits() : file_(open_counts(calling_thread())) {}

int64_t OwnWaits::waited_ns() {
  keep_open(file_);
  int64_t ran_ns = 0, waited_ns = 0;
  return read_counts(file_, ran_ns, waited_ns) ? waited_ns : -1;
}

}  // namespace opscope
