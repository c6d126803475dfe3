// For each thread, the log positions that kept windows begin at: the smallest one says which records may be
// released, without looking at every window whenever one is discarded.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>

#include "log/thread_log.h"

namespace opscope {

// [holding the registry's mutex]
class NeededRecords {
 public:
  // A window needs what `thread` recorded from `begin` on.
  void add(const ThreadLog* thread, uint64_t begin) { begins_[thread].insert(begin); }

  // One window that did needs it no longer.
  void remove(const ThreadLog* thread, uint64_t begin) {
    const auto found = begins_.find(thread);
    if (found == begins_.end()) return;
    const auto one = found->second.find(begin);
    if (one != found->second.end()) found->second.erase(one);
    if (found->second.empty()) begins_.erase(found);
  }

  bool has(const ThreadLog* thread) const { return begins_.contains(thread); }

  // The first record that a window needs; `otherwise` where none does.
  uint64_t first(const ThreadLog* thread, uint64_t otherwise) const {
    const auto found = begins_.find(thread);
    return found == begins_.end() ? otherwise : *found->second.begin();
  }

 private:
  std::unordered_map<const ThreadLog*, std::multiset<uint64_t>> begins_;  // no entry is empty
};

}  // namespace opscope
