// Reads what the kernel counts of every thread, and of processes that this one may wait for, about a hundred times a second, while somebody wants it.
//
// It needs no GIL and stops no thread. A thread that sleeps costs one system call each time, so most do. How
// much of a processor it takes is bounded: where there are many threads it looks less often. Rows are bounded
// too: what is kept are counts, so of a long recording every second row says as much, less finely.
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
  int64_t processor_ns = 0;  // of its thread, since the reader began
  int64_t looks = 0;
  bool is_cut = false;  // threads were looked at less than they should have been: memory is limited, or short
};

class ThreadSampler {
 public:
  // That of this process: a forked child has its own, as it has none of its parent's threads.
  static ThreadSampler& instance();

  // [MT] Rows from now on are for the reader with this number, too. Once per number. `is_rank`: the processes that
  // the same parent started are ranks of one job.
  void begin(uint64_t reader, bool is_rank);
  // [MT] The rows since it began; of no number but one that began and has not ended.
  bool end(uint64_t reader, ThreadSampleColumns& rows, SamplerStatistics& statistics);
  // [MT] How many readers there are.
  size_t readers();

 private:
  struct Row {
    int64_t time_ns;
    pid_t thread;  // negative for another process
    KernelCounts counts;
  };
  struct Known {
    CountedThread files;
    Row last;      // as it was seen the last time
    bool is_kept;  // whether that is among the rows
  };
  struct Reader {
    int64_t began_ns;
    SamplerStatistics before;
  };

  explicit ThreadSampler(pid_t process) : process_(process) {}
  void run(uint64_t mine);
  bool look_while_there_is_memory(bool is_for_reader = false);
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
  std::mutex mutex_;  // for all that follows
  std::condition_variable ended_;
  std::map<uint64_t, Reader> readers_;
  std::unordered_map<pid_t, Known> threads_;
  std::vector<Row> rows_;
  SamplerStatistics statistics_;
  std::thread thread_;
  pid_t own_thread_ = 0;
  bool is_rank_ = false;
  bool knows_all_ = false;  // of the threads that there were at the last search
  int64_t least_pause_ns_ = 10'000'000;
  uint64_t generation_ = 0;  // of the thread: one that is not the latest ends
};

}  // namespace opscope
