// What the host of a virtual machine took of its processors' time: such time passes for whoever was on the
// processor as if it had computed, so that no count of a thread's has it. The kernel counts it for each
// processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <vector>

namespace opscope {

class StolenTime {
 public:
  // [one thread] Reads what was taken so far, so seldom that it is about a thousandth of the time; now in any
  // case, if somebody wants to know.
  void look(int64_t now_ns, bool is_asked);
  // [MT] Of one of the processors that this program may use, the one that had most taken, within that time
  // and a little before and after it; 0 where nobody knows.
  int64_t stolen_ns(int64_t from_ns, int64_t to_ns) const;
  // [one thread] Notes what the kernel says, a text as /proc/stat has it.
  void note(int64_t now_ns, std::string_view text);

 private:
  struct Reading {
    int64_t at_ns;
    std::vector<int64_t> taken_ns;  // by number of the processor; -1 for those that it may not use
  };

  int64_t pause_ns_ = 0;
  int64_t read_at_ns_ = 0;

  mutable std::mutex mutex_;  // for what follows
  std::deque<Reading> readings_;
};

}  // namespace opscope
