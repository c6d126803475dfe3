// Reads the kernel counters of every thread about 100 times a second, while there are readers; and of
// processes that the program may wait for: child processes, and ranks beside this one.
//
// Needs no GIL and stops no thread. A sleeping thread costs one system call per look. The CPU share is
// bounded: with many threads, looks are less frequent. The number of rows is bounded too: rows are cumulative
// counters, so a long recording keeps every second row and loses only resolution.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "sampler/kernel_counts.h"
#include "schema/tables.h"

namespace opscope {

struct SamplerStatistics {
  int64_t processor_ns = 0;  // CPU time of the sampler's thread since the reader began
  int64_t looks = 0;
  bool is_cut = false;  // looks were less frequent than intended: memory is limited or short
};

class ThreadSampler {
 public:
  // The sampler of this process: a forked child has its own, as the parent's threads do not exist there.
  static ThreadSampler& instance();

  // [MT] From now on rows are also for this reader. Once per reader. `is_rank`: the processes that the same
  // parent started are ranks of one job.
  void begin(uint64_t reader, bool is_rank);
  // [MT] Takes the rows since the reader began; none for a reader that has not begun or has ended.
  bool end(uint64_t reader, ThreadSampleColumns& rows, SamplerStatistics& statistics);
  // [MT] Number of readers.
  size_t readers();

 private:
  struct Row {
    int64_t time_ns;
    pid_t thread;  // negative for another process
    KernelCounts counts;
  };
  struct Known {
    CountedThread files;
    Row last;      // the newest row
    bool is_kept;  // whether `last` is among the kept rows
  };
  struct Reader {
    int64_t began_ns;
    SamplerStatistics before;
  };

  explicit ThreadSampler(pid_t process) : process_(process) {}
  void run(uint64_t mine);
  bool look_within_memory(bool is_for_reader = false);
  void look();
  void look_for_reader();
  void find_threads(int64_t until_ns);
  bool find_new(const std::vector<pid_t>& numbers, int64_t until_ns);
  size_t count_kept_open() const;
  void find_thread(pid_t thread, bool keeps_open);
  void look_at(Known& known);
  static bool read_at_once(const CountedThread& files, Row& row);
  void keep(const Row& row);
  void keep_all();
  void thin();
  int64_t pause_ns(int64_t cost_ns) const;

  const pid_t process_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable ended_;
  std::map<uint64_t, Reader> readers_;
  std::unordered_map<pid_t, Known> threads_;
  std::vector<Row> rows_;
  SamplerStatistics statistics_;
  std::thread thread_;
  pid_t own_thread_ = 0;
  bool is_rank_ = false;
  bool found_all_ = false;  // whether all threads of the last search are known
  int64_t least_pause_ns_ = 10'000'000;
  uint64_t generation_ = 0;  // of the thread: every thread but the newest ends
};

}  // namespace opscope
