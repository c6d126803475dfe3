// Stack of a thread's open spans, innermost last.
//
// Not a std::vector: entries are written field by field. A vector copies a finished entry, and reading that
// back before it has left the store buffer costs more than recording.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "log/record.h"

namespace opscope {

// Set in the key of a call whose end only a Python hook reports. No object's address has this bit.
constexpr uint64_t kWatchedCall = uint64_t{1} << 63;
inline bool is_watched_call(uint64_t key) { return (key & kWatchedCall) != 0; }

struct OpenSpan {
  uint64_t key;    // passed at its end
  Record* record;  // record that gets the end
  uint32_t index;  // log index modulo 2^32, the parent of inner spans
};

class OpenSpans {
 public:
  OpenSpans() { grow(); }

  bool empty() const { return top_ == spans_.get(); }
  size_t size() const { return static_cast<size_t>(top_ - spans_.get()); }
  const OpenSpan& back() const { return top_[-1]; }
  const OpenSpan& operator[](size_t i) const { return spans_[i]; }

  // Makes room for one more; false: out of memory.
  bool make_room() {
    if (top_ != limit_) [[likely]]
      return true;
    return grow();
  }
  // There must be room.
  void push_back(uint64_t key, Record* record, uint32_t index) {
    top_->key = key;
    top_->record = record;
    top_->index = index;
    ++top_;
  }
  void pop_back() { --top_; }
  // Removes [from, to), counted from the outermost.
  void erase(size_t from, size_t to) {
    OpenSpan* kept = spans_.get() + from;
    for (const OpenSpan* span = spans_.get() + to; span != top_; ++span) *kept++ = *span;
    top_ = kept;
  }
  template <typename Function>
  bool any_of(Function&& is_wanted) const {
    return std::any_of(spans_.get(), spans_.get() + size(), is_wanted);
  }
  // Calls function(span) for each, outermost first; it may change the span's record.
  template <typename Function>
  void for_each(Function&& function) {
    std::for_each(spans_.get(), spans_.get() + size(), function);
  }
  // Keeps spans for which `is_kept(span)`, called innermost first.
  template <typename Function>
  void keep_if(Function&& is_kept) {
    OpenSpan* kept = top_;
    for (OpenSpan* span = top_; span-- != spans_.get();) {
      if (is_kept(*span)) *--kept = *span;
    }
    OpenSpan* const end = top_;
    for (top_ = spans_.get(); kept != end;) *top_++ = *kept++;
  }

 private:
  // Callbacks of torch and Python call this, so it must not throw.
  [[gnu::noinline]] bool grow() noexcept {
    const size_t count = size();
    const size_t room = count == 0 ? 256 : 2 * count;
    std::unique_ptr<OpenSpan[]> larger(new (std::nothrow) OpenSpan[room]);
    if (larger == nullptr) return false;
    for (size_t i = 0; i < count; ++i) larger[i] = spans_[i];
    spans_ = std::move(larger);
    top_ = spans_.get() + count;
    limit_ = spans_.get() + room;
    return true;
  }

  OpenSpan* top_ = nullptr;  // past the innermost
  OpenSpan* limit_ = nullptr;
  std::unique_ptr<OpenSpan[]> spans_;
};

}  // namespace opscope
