#include "decode/spans.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace opscope {

namespace {

bool earlier(const Ends::End& a, const Ends::End& b) { return a.ticks < b.ticks; }

}  // namespace

// The list is short, and spans without a parent skip the search.
int32_t ThreadSpans::carried_around(uint32_t parent) const {
  if (parent == kNoParent) return kNone;
  const auto found =
      std::lower_bound(places.begin(), places.end(), parent, [](const CarriedPlace& place, uint32_t index) {
        return static_cast<int32_t>(place.index - index) < 0;
      });
  return found == places.end() || found->index != parent ? kNone : found->around;
}

void Ends::add(const Record& record, const ThreadView* thread, bool is_later) {
  const auto [key, native_thread, what] = record.close;
  const bool is_noticed = what == EndOf::kNoticedFrame;
  const End end = {record.ticks, thread, what == EndOf::kSpan, native_thread, is_later, is_noticed};
  if (what != EndOf::kSpan) of_started_[key].push_back(end);
  if (what == EndOf::kStartedFrame || what == EndOf::kNoticedFrame) return;
  apart_[key].push_back(end);
  total_ += what == EndOf::kSpan && !is_later ? 1 : 0;
}

void Ends::sort() {
  for (ByKey* ends : {&apart_, &of_started_}) {
    for (auto& [key, ticks] : *ends) std::sort(ticks.begin(), ticks.end(), earlier);
  }
}

Ends::End Ends::end_of_started(uint64_t key, uint64_t start, uint64_t native_thread) const {
  const auto entry = of_started_.find(key);
  if (entry == of_started_.end()) return {UINT64_MAX};
  const auto first = std::lower_bound(entry->second.begin(), entry->second.end(), End{start}, earlier);
  const auto end = std::find_if(first, entry->second.end(), [native_thread](const End& candidate) {
    return candidate.native_thread == 0 || candidate.native_thread == native_thread;
  });
  return end == entry->second.end() ? End{UINT64_MAX} : *end;
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
      matched_ += end.is_counted && !end.is_later ? 1 : 0;
      spans.erase(std::prev(after));
    }
  }
}

Ends::End Ends::find(const Record& span) const {
  const auto entry = found_.find(&span);
  return entry == found_.end() ? End{} : entry->second;
}

uint64_t Ends::end_of(const Record& span) const {
  if (is_closed(span.load_state())) return span.load_end();
  const End end = find(span);
  return end.ticks == 0 ? UINT64_MAX : end.ticks;
}

namespace {

constexpr uint64_t kNever = UINT64_MAX;
constexpr int64_t kNoRoot = -1;

class Nesting {
 public:
  Nesting(ThreadSpans& thread, const Ends& ends, uint64_t stopped)
      : thread_(thread), ends_(ends), stopped_(stopped) {
    thread_.callers = thread_.parents;
    thread_.ends.resize(thread_.spans.size());
  }

  void run() {
    for (const CarriedSpan& span : thread_.carried) roots_.push_back(span.root);
    size_t memory = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(thread_.spans.size()); ++i) {
      for (; memory < thread_.memory.size() && thread_.memory_after[memory] <= i; ++memory)
        place_memory(memory);
      place(i);
    }
    for (; memory < thread_.memory.size(); ++memory) place_memory(memory);
    thread_.roots = std::move(roots_);
    thread_.bounds = std::move(until_);
    for (const auto& [ordinal, ticks] : left_)
      thread_.bounds[ordinal] = std::min(thread_.bounds[ordinal], ticks);
  }

 private:
  // A span that may contain later ones.
  struct Open {
    int32_t ordinal;
    uint64_t until;  // in ticks
  };

  void place(int32_t ordinal) {
    const Record& span = *thread_.spans[ordinal];
    const int32_t caller = thread_.callers[ordinal];
    const bool has_end = is_closed(span.load_state());
    const bool has_left = span.load_state() == SpanState::kAbandoned;
    const Ends::End apart = has_end ? Ends::End{} : ends_.find(span);
    const bool ended_elsewhere = apart.ticks != 0 && apart.thread != thread_.log;
    const uint64_t noted = has_end ? span.load_end() : apart.ticks != 0 ? apart.ticks : kNever;
    // An end after the window counts as none: whether the log has it depends on chance.
    const uint64_t end = noted > stopped_ ? kNever : noted;
    // A span that left the stack and has no end here contains nothing after its caller.
    const bool ends_with_caller = has_left && (end == kNever || ended_elsewhere);
    uint64_t until = ends_with_caller && caller != kNone ? std::min(end, until_[caller]) : end;
    const bool is_carried = static_cast<size_t>(ordinal) < thread_.carried.size();
    if (is_carried && ends_with_caller) until = std::min(until, thread_.carried[ordinal].bound);
    if (!is_carried) roots_.push_back(caller == kNone ? thread_.next_root++ : roots_[caller]);
    leave_other_root(roots_[ordinal], span.ticks);
    // A span that another thread ends may outlast its parent.
    thread_.parents[ordinal] = innermost(caller, span.ticks, ended_elsewhere ? span.ticks : until);
    thread_.ends[ordinal] = end == kNever ? until : end;
    until_.push_back(until);
    if (is_carried && until <= thread_.carried.back().record.ticks) return;
    open_.push_back({ordinal, until});
    if (ends_with_caller && caller == kNone) left_root_ = ordinal;
  }

  void place_memory(size_t i) {
    const uint64_t ticks = thread_.memory[i]->ticks;
    const int32_t caller = thread_.memory_spans[i];
    leave_other_root(caller == kNone ? kNoRoot : roots_[caller], ticks);
    thread_.memory_spans[i] = innermost(caller, ticks, ticks);
  }

  // A span that left the stack with a parent outside this window ends at the first record with another root.
  void leave_other_root(int64_t root, uint64_t ticks) {
    if (left_root_ == kNone || roots_[left_root_] == root) return;
    for (Open& open : open_) {
      if (open.ordinal == left_root_) open.until = std::min(open.until, ticks);
    }
    left_.emplace_back(left_root_, ticks);
    thread_.ends[left_root_] = std::min(thread_.ends[left_root_], ticks);
    left_root_ = kNone;
  }

  // Last begun span that contains [start, end]; `caller`: parent according to the stack. An annotation that
  // outlives a call does not contain the call's own callees.
  int32_t innermost(int32_t caller, uint64_t start, uint64_t end) {
    const auto is_open = [&](const Open& span) { return span.until > start || span.ordinal == caller; };
    while (!open_.empty() && !is_open(open_.back())) open_.pop_back();
    while (caller != kNone && until_[caller] < end) caller = thread_.callers[caller];
    const bool is_bound = caller != kNone && thread_.spans[caller]->kind != RecordKind::kAnnotation;
    const uint64_t limit = is_bound ? until_[caller] : kNever;
    for (size_t i = open_.size(); i-- > 0;) {
      if (is_open(open_[i]) && open_[i].until >= end && open_[i].until <= limit) return open_[i].ordinal;
    }
    return kNone;
  }

  ThreadSpans& thread_;
  const Ends& ends_;
  const uint64_t stopped_;
  std::vector<uint64_t> until_;  // by ordinal
  std::vector<int64_t> roots_;   // by ordinal: number of the outermost parent according to the stack
  std::vector<Open> open_;       // in start order, including ended spans
  int32_t left_root_ = kNone;
  std::vector<std::pair<int32_t, uint64_t>> left_;  // earlier values of left_root_, and their ends
};

}  // namespace

void nest_by_time(ThreadSpans& thread, const Ends& ends, uint64_t stopped) {
  if (!thread.is_nested) Nesting(thread, ends, stopped).run();
}

void end_initial(ThreadSpans& thread, size_t i, ThreadSpans::InitialEnd end) {
  thread.initial_ends[i] = end;
  thread.initial[i].store_end(end.ticks);
}

void find_initial_ends(ThreadSpans& thread, const Ends& ends, uint64_t start, uint64_t native_thread) {
  thread.initial_ends.assign(thread.initial.size(), {UINT64_MAX, false});
  for (size_t i = 0; i < thread.initial.size(); ++i) {
    Record& record = thread.initial[i];
    if (is_closed(record.load_state())) thread.initial_ends[i].ticks = record.load_end();
    if (is_closed(record.load_state())) continue;
    const Ends::End end = ends.end_of_started(record.span.end, start, native_thread);
    if (end.ticks == UINT64_MAX) continue;
    end_initial(thread, i, {end.ticks, end.is_noticed});
    record.store_state(SpanState::kClosed);
  }
}

void find_carried_ends(ThreadSpans& thread, Ends& ends, uint64_t start, uint64_t native_thread) {
  find_initial_ends(thread, ends, start, native_thread);
  for (size_t i = thread.initial.size(); i < thread.spans.size(); ++i) {
    if (!is_closed(thread.spans[i]->load_state())) ends.expect(*thread.spans[i]);
  }
}

std::vector<uint32_t> merge_by_start(std::deque<ThreadSpans>& threads, int32_t first) {
  std::vector<uint32_t> order;
  size_t total = 0;
  using Head = std::pair<uint64_t, uint32_t>;  // start of a thread's next span, thread
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  std::vector<size_t> next(threads.size(), 0);
  for (uint32_t t = 0; t < threads.size(); ++t) {
    ThreadSpans& thread = threads[t];
    next[t] = thread.carried.size();
    total += thread.spans.size() - next[t];
    thread.ids.resize(thread.spans.size());
    if (next[t] < thread.spans.size()) heads.emplace(thread.spans[next[t]]->ticks, t);
  }
  require(total <= static_cast<size_t>(INT32_MAX - first), "it has more events than opscope can number");
  order.reserve(total);
  while (!heads.empty()) {
    const uint32_t t = heads.top().second;
    heads.pop();
    ThreadSpans& thread = threads[t];
    const uint64_t others = heads.empty() ? UINT64_MAX : heads.top().first;
    size_t& i = next[t];
    // At least one, then all that begin before any other thread's.
    do {
      thread.ids[i] = first + static_cast<int32_t>(order.size());
      order.push_back(t);
      ++i;
    } while (i < thread.spans.size() && thread.spans[i]->ticks <= others);
    if (i < thread.spans.size()) heads.emplace(thread.spans[i]->ticks, t);
  }
  return order;
}

}  // namespace opscope
