// Log positions of each thread that kept windows need, from begin to end. Anything between may be released,
// without looking at every window when one is discarded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>

namespace opscope {

class ThreadLog;

// Parts of one thread's log that windows need: [begin, end), in order of their starts.
using NeededPart = std::pair<uint64_t, uint64_t>;
using NeededParts = std::multiset<NeededPart>;
// End of a part whose window is open.
constexpr uint64_t kStillOpen = UINT64_MAX;

// Visits stretches of a log in order and finds whether a needed part overlaps each. Allocates nothing.
class NeededSweep {
 public:
  // `except`: one part to ignore; empty to ignore none.
  explicit NeededSweep(const NeededParts& parts, NeededPart except = {})
      : next_(parts.begin()), last_(parts.end()), except_(parts.find(except)) {}

  bool is_in(uint64_t first, uint64_t end) {
    for (; next_ != last_ && next_->first < end; ++next_) {
      if (next_ != except_ && next_->first < next_->second) reach_ = std::max(reach_, next_->second);
    }
    return reach_ > first;
  }

 private:
  NeededParts::const_iterator next_, last_, except_;
  uint64_t reach_ = 0;  // latest end of the parts that begin before the current stretch
};

// [holding the registry's mutex]
class NeededRecords {
 public:
  // A window needs the records of `thread` in [begin, end).
  void add(const ThreadLog* thread, uint64_t begin, uint64_t end = kStillOpen) {
    parts_[thread].insert({begin, end});
  }

  // One such window is discarded.
  void remove(const ThreadLog* thread, uint64_t begin, uint64_t end) {
    const auto found = parts_.find(thread);
    if (found == parts_.end()) return;
    const auto one = found->second.find({begin, end});
    if (one != found->second.end()) found->second.erase(one);
    if (found->second.empty()) parts_.erase(found);
  }

  // The window that needs records from `begin` on ended at `end`. Allocates nothing.
  void close(const ThreadLog* thread, uint64_t begin, uint64_t end) {
    const auto found = parts_.find(thread);
    if (found == parts_.end()) return;
    const auto one = found->second.find({begin, kStillOpen});
    if (one == found->second.end()) return;
    auto part = found->second.extract(one);
    part.value().second = end;
    found->second.insert(std::move(part));
  }

  bool has(const ThreadLog* thread) const { return parts_.contains(thread); }

  const NeededParts& of(const ThreadLog* thread) const {
    static const NeededParts kNone;
    const auto found = parts_.find(thread);
    return found == parts_.end() ? kNone : found->second;
  }

 private:
  std::unordered_map<const ThreadLog*, NeededParts> parts_;  // no entry is empty
};

}  // namespace opscope
