#include "spans.h"

#include <algorithm>

namespace opscope {

namespace {

constexpr int32_t kNone = -1;

bool earlier(const Ends::End& a, const Ends::End& b) { return a.ticks < b.ticks; }

}  // namespace

void Ends::add(const Record& close, const ThreadLog* thread) {
  const auto what = static_cast<EndOf>(close.scope);
  const End end = {close.ticks, thread, what == EndOf::kSpan};
  if (what != EndOf::kSpan) of_started_[close.end].push_back(end);
  if (what == EndOf::kStartedFrame) return;
  apart_[close.end].push_back(end);
  total_ += what == EndOf::kSpan ? 1 : 0;
}

void Ends::sort() {
  for (ByKey* ends : {&apart_, &of_started_}) {
    for (auto& [key, ticks] : *ends) std::sort(ticks.begin(), ticks.end(), earlier);
  }
}

uint64_t Ends::end_of_started(uint64_t key, uint64_t start) const {
  const auto entry = of_started_.find(key);
  if (entry == of_started_.end()) return UINT64_MAX;
  const auto end = std::lower_bound(entry->second.begin(), entry->second.end(), End{start}, earlier);
  return end == entry->second.end() ? UINT64_MAX : end->ticks;
}

void Ends::match() {
  for (auto& [key, spans] : expected_) {
    const auto entry = apart_.find(key);
    if (entry == apart_.end()) continue;
    std::sort(spans.begin(), spans.end(),
              [](const Record* a, const Record* b) { return a->ticks < b->ticks; });
    for (const End& end : entry->second) {
      const auto after = std::find_if(spans.begin(), spans.end(),
                                      [&](const Record* span) { return span->ticks > end.ticks; });
      if (after == spans.begin()) continue;
      found_[*std::prev(after)] = end;
      matched_ += end.is_counted ? 1 : 0;
      spans.erase(std::prev(after));
    }
  }
}

Ends::End Ends::find(const Record& span) const {
  const auto entry = found_.find(&span);
  return entry == found_.end() ? End{} : entry->second;
}

uint64_t Ends::end_of(const Record& span) const {
  if (span.load_state() == SpanState::kClosed) return span.load_end();
  const End end = find(span);
  return end.ticks == 0 ? UINT64_MAX : end.ticks;
}

namespace {

class Nesting {
 public:
  Nesting(ThreadSpans& thread, const Ends& ends) : thread_(thread), ends_(ends) {}

  void run() {
    for (size_t i = 0; i < thread_.spans.size(); ++i) place(static_cast<int32_t>(i));
    if (outliving_.empty()) thread_.callers.clear();
    size_t next = 0;
    open_.clear();
    for (size_t i = 0; i < thread_.memory.size(); ++i) {
      const uint64_t ticks = thread_.memory[i]->ticks;
      while (next < outliving_.size() && span(outliving_[next]).ticks <= ticks)
        open_.push_back(outliving_[next++]);
      thread_.memory_spans[i] = around(thread_.memory_spans[i], ticks, ticks);
    }
  }

 private:
  const Record& span(int32_t ordinal) const { return *thread_.spans[ordinal]; }
  uint64_t end_of(int32_t ordinal) const { return ends_.end_of(span(ordinal)); }

  void place(int32_t ordinal) {
    const Record& record = span(ordinal);
    const uint64_t end = end_of(ordinal);
    int32_t parent = thread_.parents[ordinal];
    // Did it leave the stack, with a span below it, before it ended? That one need not be in this window.
    const bool outlives =
        end == UINT64_MAX
            ? is_python(record.kind) && record.load_state() == SpanState::kAbandoned
            : record.load_state() != SpanState::kClosed && ends_.find(record).thread == thread_.log.get();
    while (outlives && end != UINT64_MAX && parent != kNone && end_of(parent) < end)
      parent = thread_.parents[parent];
    thread_.parents[ordinal] = around(parent, record.ticks, end);
    if (!outlives) return;
    open_.push_back(ordinal);
    outliving_.push_back(ordinal);
  }

  // Did it begin in this annotation, which ended first? What ran in both is in the later one.
  bool crosses(int32_t ordinal, int32_t parent) const {
    return parent != kNone && ordinal > parent && span(parent).kind == RecordKind::kAnnotation;
  }

  // What contains something that ran directly in `parent` according to the stack.
  int32_t around(int32_t parent, uint64_t start, uint64_t end) {
    while (parent != kNone && span(parent).load_state() != SpanState::kClosed && end_of(parent) <= start) {
      parent = thread_.parents[parent];
    }
    std::erase_if(open_, [&](int32_t ordinal) { return end_of(ordinal) <= start; });
    for (const int32_t ordinal : open_) {
      const bool is_inside = thread_.parents[ordinal] == parent || crosses(ordinal, parent);
      if (is_inside && end <= end_of(ordinal)) parent = ordinal;
    }
    return parent;
  }

  ThreadSpans& thread_;
  const Ends& ends_;
  std::vector<int32_t> outliving_;  // spans that outlive what they began in, in start order
  std::vector<int32_t> open_;       // those of them that have not ended yet
};

}  // namespace

void nest_by_time(ThreadSpans& thread, const Ends& ends) {
  if (!ends.found_any()) return;
  thread.callers = thread.parents;
  Nesting(thread, ends).run();
}

}  // namespace opscope
