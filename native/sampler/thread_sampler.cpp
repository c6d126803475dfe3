#include "sampler/thread_sampler.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <new>
#include <system_error>

#include "log/clock.h"
#include "log/own_file.h"

namespace opscope {

namespace {

constexpr int64_t kShortestPause_ns = 10'000'000;
constexpr int64_t kLongestPause_ns = 1'000'000'000;
constexpr int64_t kPausePerCost = 250;       // so at most 0.4 % of a CPU
constexpr int64_t kLooksPerSearch = 8;       // looks between two searches for new threads
constexpr int64_t kPatience_ns = 1'000'000;  // CPU time of a thread that starts or stops reading
constexpr int kMostTurns = 4;
constexpr int64_t kAtOnce_ns = 100'000;
constexpr size_t kMostRows = 1U << 18U;

// Calls `start` with all signals blocked, so that the new threads leave signals to the program's threads.
template <class Start>
void without_signals(Start start) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    start();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// If the memory limit is reached, the first exception on a new thread ends the process, because its
// thread-local data cannot be allocated. So the sampler starts no thread if there is a limit.
bool has_limited_memory() {
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return true;
  }
  return false;
}

}  // namespace

ThreadSampler& ThreadSampler::instance() {
  static std::atomic<ThreadSampler*> current{nullptr};
  const pid_t process = getpid();
  ThreadSampler* found = current.load();
  while (found == nullptr || found->process_ != process) {
    // Never destroyed. In a forked child the parent's sampler stays too, as its lock may be held.
    auto* const made = new ThreadSampler(process);
    if (current.compare_exchange_strong(found, made)) return *made;
    delete made;
  }
  return *found;
}

void ThreadSampler::begin(uint64_t reader, bool is_rank) {
  const std::lock_guard lock(mutex_);
  is_rank_ |= is_rank;
  if (readers_.count(reader) != 0) return;
  const bool is_first = readers_.empty();
  if (is_first) {
    rows_.clear();
    threads_.clear();
    least_pause_ns_ = kShortestPause_ns;
    statistics_.is_cut = false;
  }
  const int64_t now = clock_ns(CLOCK_REALTIME);
  look_within_memory(/*is_for_reader=*/true);
  readers_.emplace(reader, Reader{now, statistics_});
  statistics_.is_cut |= has_limited_memory();
  if (!is_first || statistics_.is_cut) return;
  if (thread_.joinable()) thread_.detach();  // an earlier thread that is about to end
  try {
    without_signals([&] { thread_ = std::thread([this, mine = ++generation_] { run(mine); }); });
  } catch (const std::system_error&) {
    // The process may have no more threads: then the only rows are those at the begin and the end.
  }
}

bool ThreadSampler::end(uint64_t reader, ThreadSampleColumns& rows, SamplerStatistics& statistics) {
  const std::lock_guard lock(mutex_);
  const auto found = readers_.find(reader);
  if (found == readers_.end()) return false;
  look_within_memory(/*is_for_reader=*/true);
  for (const Row& row : rows_) {
    if (row.time_ns < found->second.began_ns) continue;
    rows.system_thread_id.push_back(row.thread);
    rows.time_ns.push_back(row.time_ns);
    rows.computed_ns.push_back(row.counts.computed_ns);
    rows.delayed_ns.push_back(row.counts.delayed_ns);
    rows.system_ns.push_back(row.counts.system_ns);
    rows.faults.push_back(row.counts.faults);
    rows.waits_for.push_back(static_cast<uint8_t>(row.counts.waits_for));
  }
  statistics.processor_ns = statistics_.processor_ns - found->second.before.processor_ns;
  statistics.looks = statistics_.looks - found->second.before.looks;
  statistics.is_cut = statistics_.is_cut;
  readers_.erase(found);
  if (!readers_.empty()) return true;
  rows_ = {};
  threads_.clear();
  ++generation_;
  ended_.notify_all();
  return true;
}

size_t ThreadSampler::readers() {
  const std::lock_guard lock(mutex_);
  return readers_.size();
}

// `mine` is the thread's generation, which may be over before the thread first runs.
void ThreadSampler::run(uint64_t mine) {
  pthread_setname_np(pthread_self(), "opscope-sampler");
  std::unique_lock lock(mutex_);
  if (generation_ != mine || has_limited_memory()) return;
  own_thread_ = static_cast<pid_t>(syscall(SYS_gettid));
  threads_.erase(own_thread_);
  int64_t used_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), pause = least_pause_ns_;
  while (generation_ == mine) {
    ended_.wait_for(lock, std::chrono::nanoseconds(pause));
    if (generation_ != mine) break;
    if (has_limited_memory()) statistics_.is_cut = true;
    if (statistics_.is_cut || !look_within_memory()) return;
    const int64_t now_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    statistics_.processor_ns += now_ns - used_ns;
    pause = pause_ns(now_ns - used_ns);
    used_ns = now_ns;
  }
}

int64_t ThreadSampler::pause_ns(int64_t cost_ns) const {
  return std::clamp(cost_ns * kPausePerCost, least_pause_ns_, kLongestPause_ns);
}

// This function and those below need mutex_.
bool ThreadSampler::look_within_memory(bool is_for_reader) {
  try {
    if (is_for_reader) {
      look_for_reader();
      keep_all();  // at the begin and the end, sleeping threads get a row too
    } else {
      look();
    }
  } catch (const std::bad_alloc&) {
    statistics_.is_cut = true;
  }
  return !statistics_.is_cut;
}

void ThreadSampler::look() {
  const bool is_search = statistics_.looks++ % kLooksPerSearch == 0;
  if (is_search || !found_all_) find_threads(std::numeric_limits<int64_t>::max());
  for (auto one = threads_.begin(); one != threads_.end();) {
    if (one->first < 0 && !is_search) {  // their counters cost more, and are needed less often
      ++one;
      continue;
    }
    const bool has_ended = one->second.files.computed_ns() < 0;
    if (!has_ended) look_at(one->second);
    one = has_ended ? threads_.erase(one) : std::next(one);
  }
  if (rows_.size() >= kMostRows) thin();
}

// A thread that begins or ends reading waits for this, so its own row comes first. With hundreds of threads
// the sampler's thread reads the others.
void ThreadSampler::look_for_reader() {
  ++statistics_.looks;
  const int64_t until_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + kPatience_ns;
  const auto own = threads_.find(static_cast<pid_t>(syscall(SYS_gettid)));
  if (own != threads_.end()) {
    look_at(own->second);
  } else {
    find_thread(static_cast<pid_t>(syscall(SYS_gettid)), count_kept_open() < most_threads_kept_open());
  }
  for (auto& [number, known] : threads_) {
    if (clock_ns(CLOCK_THREAD_CPUTIME_ID) > until_ns) return;
    look_at(known);
  }
  find_threads(until_ns);
}

void ThreadSampler::find_threads(int64_t until_ns) {
  const std::vector<pid_t> threads = numbered_entries("/proc/self/task", SIZE_MAX);
  if (threads.empty()) return;
  found_all_ = find_new(threads, until_ns);
  if (!found_all_) return;
  std::vector<pid_t> processes = processes_beside(is_rank_);
  for (pid_t& process : processes) process = -process;
  found_all_ = find_new(processes, until_ns);
}

// Whether all of them are known by then.
bool ThreadSampler::find_new(const std::vector<pid_t>& numbers, int64_t until_ns) {
  size_t kept_open = count_kept_open();
  const size_t most = most_threads_kept_open();
  for (const pid_t number : numbers) {
    if (number == own_thread_ || threads_.count(number) != 0) continue;
    if (clock_ns(CLOCK_THREAD_CPUTIME_ID) > until_ns) return false;
    find_thread(number, number > 0 && kept_open < most);
    ++kept_open;
  }
  return true;
}

size_t ThreadSampler::count_kept_open() const {
  return static_cast<size_t>(std::count_if(threads_.begin(), threads_.end(),
                                           [](const auto& one) { return one.second.files.keeps_open(); }));
}

void ThreadSampler::find_thread(pid_t thread, bool keeps_open) {
  Known known{CountedThread(thread, keeps_open), Row{0, thread, {}}, true};
  if (!read_at_once(known.files, known.last)) return;
  keep(known.last);
  threads_.emplace(thread, std::move(known));
}

// A thread without CPU time since the last look has the same counters and the same wait: no more is read, and
// no row is kept until it runs.
void ThreadSampler::look_at(Known& known) {
  const int64_t computed = known.files.computed_ns();
  if (computed < 0) return;
  if (computed == known.last.counts.computed_ns && known.last.counts.waits_for != WaitsFor::kNothing) {
    known.last.time_ns = clock_ns(CLOCK_REALTIME);
    known.is_kept = false;
    return;
  }
  if (!known.is_kept) keep(known.last);
  known.is_kept = true;
  Row row{0, known.files.thread(), {}};
  if (!read_at_once(known.files, row)) return;
  keep(row);
  known.last = row;
}

// Counters read at different moments would contain gaps on a busy machine.
bool ThreadSampler::read_at_once(const CountedThread& files, Row& row) {
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const int64_t before = clock_ns(CLOCK_REALTIME);
    const int64_t computed = files.computed_ns();
    if (computed < 0 || !files.read(computed, row.counts)) return false;
    row.time_ns = clock_ns(CLOCK_REALTIME);
    if (row.time_ns - before < kAtOnce_ns) break;
  }
  return true;
}

void ThreadSampler::keep_all() {
  for (auto& [number, known] : threads_) {
    if (!known.is_kept) keep(known.last);
    known.is_kept = true;
  }
}

void ThreadSampler::keep(const Row& row) { rows_.push_back(row); }

// Drops every second row of each thread but its last; from now on rows come half as often.
void ThreadSampler::thin() {
  std::unordered_map<pid_t, bool> drops;
  size_t kept = 0;
  for (const Row& row : rows_) {
    bool& drop = drops[row.thread];
    const bool is_last =
        threads_.count(row.thread) != 0 && threads_.at(row.thread).last.time_ns == row.time_ns;
    if (!drop || is_last) rows_[kept++] = row;
    drop = !drop;
  }
  rows_.resize(kept);
  least_pause_ns_ = std::min(least_pause_ns_ * 2, kLongestPause_ns);
}

}  // namespace opscope
