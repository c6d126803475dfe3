#include "decode/pieces.h"

#include <algorithm>

namespace opscope {

namespace {

// Limit of carried spans per thread that left the stack and may still end; the thread's own limit.
constexpr size_t kMostLeft = 4096;

const Record* record_at(const ThreadView& view, uint64_t index) {
  const auto after =
      std::upper_bound(view.chunks.begin(), view.chunks.end(), index,
                       [](uint64_t i, const Chunk* chunk) { return i < chunk->first_index(); });
  if (after == view.chunks.begin()) return nullptr;
  const Chunk& chunk = **std::prev(after);
  const uint64_t place = index - chunk.first_index();
  return place < chunk.count() ? &chunk.records[place] : nullptr;
}

uint64_t index_after(const ThreadView& view, uint64_t ticks) {
  for (const Chunk* chunk : view.chunks) {
    const uint64_t first = chunk->first_index();
    const uint64_t last = std::min(first + chunk->count(), view.end);
    for (uint64_t index = std::max(first, view.begin); index < last; ++index) {
      if (chunk->records[index - first].ticks > ticks) return index;
    }
  }
  return view.end;
}

// Updates a copy whose thread has continued: only state and end may have changed.
void take_record(Record& copy, const Record* record) {
  if (record == nullptr) return;
  const SpanState state = record->load_state();
  copy.store_end(record->load_end());
  copy.store_state(state);
}

bool has_left(const CarriedSpan& span) { return span.record.load_state() == SpanState::kAbandoned; }

}  // namespace

Piece::Piece(PieceState& state, const LogView& log, uint64_t until)
    : state_(state), log_(log), until_(until) {
  if (!state_.clock) state_.clock = clock_of(log).continued();
  for (const ThreadView& view : log.threads)
    ends_.push_back(until == UINT64_MAX ? view.end : index_after(view, until));
}

uint64_t Piece::end_of(const ThreadView& view) const {
  return ends_[static_cast<size_t>(&view - log_.threads.data())];
}

int64_t Piece::go_on(Columns& out, PythonColumnWriter& python, int64_t start_ns) {
  out.names = std::move(state_.names);
  names_before_ = out.names.size();
  out.cut_payloads = state_.cut_payloads;
  python.go_on(std::move(state_.python), state_.events);
  for (const CarriedThread& thread : state_.threads) {
    for (const CarriedSpan& span : thread.spans) python.add_earlier(span.row.event, span.function);
  }
  return std::max(state_.latest_start_ns, start_ns);
}

bool Piece::restore(ThreadSpans& thread, const ThreadView& view) {
  const ThreadFacts& facts = view.facts;
  const auto known = std::find_if(state_.threads.begin(), state_.threads.end(), [&](const auto& carried) {
    if (carried.facts.has_log) return carried.facts.number == facts.number;
    return is_of(InitialStack{carried.facts.native_thread, carried.facts.system_thread_id, {}}, facts);
  });
  const bool is_known = known != state_.threads.end();
  CarriedThread& carried = is_known ? *known : state_.threads.emplace_back();
  thread.state = is_known ? static_cast<size_t>(known - state_.threads.begin()) : state_.threads.size() - 1;
  carried.facts.number = facts.number;
  carried.facts.native_thread = facts.native_thread;
  carried.facts.system_thread_id = facts.system_thread_id;
  carried.facts.has_log = true;
  thread.is_nested = false;
  if (is_known) fill(thread, carried, &view);
  return is_known;
}

bool Piece::restore_idle(ThreadSpans& thread, const InitialStack& stack) {
  const auto known = std::find_if(state_.threads.begin(), state_.threads.end(), [&](const auto& carried) {
    return carried.facts.native_thread == stack.native_thread &&
           carried.facts.system_thread_id == stack.system_thread_id;
  });
  const bool is_known = known != state_.threads.end();
  CarriedThread& carried = is_known ? *known : state_.threads.emplace_back();
  thread.state = is_known ? static_cast<size_t>(known - state_.threads.begin()) : state_.threads.size() - 1;
  carried.facts.native_thread = stack.native_thread;
  carried.facts.system_thread_id = stack.system_thread_id;
  thread.is_nested = false;
  if (is_known) fill(thread, carried, nullptr);
  return is_known;
}

void Piece::fill(ThreadSpans& thread, const CarriedThread& known, const ThreadView* view) {
  thread.carried = known.spans;
  thread.places = known.places;
  thread.next_root = known.facts.next_root;
  thread.is_new = known.facts.is_new;
  for (CarriedSpan& span : thread.carried) {
    if (span.is_initial) {
      thread.initial.push_back(span.record);
      thread.spans.push_back(&thread.initial.back());
    } else {
      if (view != nullptr && !is_closed(span.record.load_state()))
        take_record(span.record, record_at(*view, span.index));
      if (has_left(span) && span.left_at == UINT64_MAX && view != nullptr) span.left_at = view->last();
      thread.made.push_back(span.record);
      thread.spans.push_back(&thread.made.back());
    }
    thread.parents.push_back(span.caller);
    thread.indices.push_back(static_cast<uint32_t>(span.index));
    thread.ids.push_back(span.row.event);
  }
}

Piece::Carried& Piece::handed(const ThreadSpans& thread) {
  if (thread.state >= handed_.size()) handed_.resize(thread.state + 1);
  return handed_[thread.state];
}

void Piece::meet(ThreadSpans& thread, const Record& record, uint64_t index, int32_t around) {
  if (!is_span(record.kind)) return;
  const SpanState state = record.load_state();
  if (is_closed(state) && record.load_end() <= until_) return;
  const uint64_t left_at = state == SpanState::kAbandoned ? thread.log->last() : UINT64_MAX;
  handed(thread).open.push_back({{static_cast<uint32_t>(index), around, left_at}, index});
}

int32_t Piece::thread_row(const ThreadSpans& thread, Columns& /*out*/) {
  int32_t& row = state_.threads[thread.state].facts.row;
  if (row == kNone) row = state_.threads_written++;
  return row;
}

bool Piece::continues(const ThreadSpans& thread, size_t i, const Ends& ends) {
  if (until_ == UINT64_MAX) return false;
  const Record& record = *thread.spans[i];
  if (is_closed(record.load_state())) return record.load_end() > until_;
  const Ends::End end = ends.find(record);
  if (end.ticks != 0) return end.is_later || end.ticks > until_;
  if (record.load_state() != SpanState::kAbandoned) return true;
  return handed(thread).left++ >= too_many_left(thread);
}

size_t Piece::too_many_left(const ThreadSpans& thread) const {
  const auto is_left = [](const CarriedSpan& span) { return has_left(span); };
  const auto left = static_cast<size_t>(std::count_if(thread.carried.begin(), thread.carried.end(), is_left));
  return left > kMostLeft ? left - kMostLeft : 0;
}

void Piece::release(const ThreadSpans& thread, size_t i) {
  std::vector<int32_t>& places = handed(thread).places;
  places.resize(thread.spans.size(), kNone);
  if (thread.callers[i] != kNone) places[i] = places[thread.callers[i]];
}

void Piece::amend(const ThreadSpans& thread, size_t i, const WrittenRow& row, Columns& out) const {
  const WrittenRow& before = thread.carried[i].row;
  if (row == before || (row.unfinished && until_ != UINT64_MAX)) return;
  out.late.push_back(row);
}

void Piece::carry_on(const ThreadSpans& thread, size_t i, const WrittenRow& row,
                     const PythonColumnWriter& python) {
  Carried& on = handed(thread);
  on.places.resize(thread.spans.size(), kNone);
  const bool is_carried = i < thread.carried.size();
  CarriedSpan span = is_carried ? thread.carried[i] : CarriedSpan{};
  span.record = *thread.spans[i];
  if (!row.unfinished || !is_carried) span.row = row;
  if (!is_carried) {
    span.is_initial = thread.log == nullptr || i < thread.initial.size();
    if (!span.is_initial) {
      const uint64_t end = thread.log->end;
      span.index = end - (static_cast<uint32_t>(end) - thread.indices[i]);
    }
    span.function = python.enclosing(row.event);
  }
  span.root = thread.roots[i];
  if (has_left(span) && thread.bounds[i] <= until_) span.bound = thread.bounds[i];
  if (has_left(span) && span.left_at == UINT64_MAX && thread.log != nullptr)
    span.left_at = thread.log->last();
  const int32_t caller = thread.callers[i];
  span.caller = caller == kNone ? kNone : on.places[caller];
  on.places[i] = static_cast<int32_t>(on.spans.size());
  on.spans.push_back(span);
}

// Keeps places that later records may name as parents: on the stack, or removed from it after this piece.
void Piece::keep_places(const ThreadSpans& thread, const Carried& on, CarriedThread& known) const {
  std::vector<CarriedPlace> kept;
  const uint64_t end = thread.log == nullptr ? 0 : end_of(*thread.log);
  const auto keep = [&](const CarriedPlace& place, const Record* record) {
    CarriedPlace now = place;
    const SpanState state = record == nullptr ? SpanState::kAbandoned : record->load_state();
    if (is_closed(state) && record->load_end() <= until_) return;
    if (state == SpanState::kAbandoned && now.left_at == UINT64_MAX) now.left_at = thread.log->last();
    if (state == SpanState::kAbandoned && now.left_at <= end) return;
    if (now.around != kNone) now.around = on.places[now.around];
    kept.push_back(now);
  };
  for (const CarriedPlace& place : thread.places) {
    const uint64_t index = thread.log->begin - (static_cast<uint32_t>(thread.log->begin) - place.index);
    keep(place, record_at(*thread.log, index));
  }
  for (const OpenPlace& open : on.open) keep(open.place, record_at(*thread.log, open.index));
  known.places = std::move(kept);
}

void Piece::end(const std::deque<ThreadSpans>& threads, Columns& out, PythonColumnWriter& python,
                int64_t latest_start_ns) {
  for (const ThreadSpans& thread : threads) {
    CarriedThread& known = state_.threads[thread.state];
    Carried& on = handed(thread);
    if (thread.log != nullptr) keep_places(thread, on, known);
    known.spans = std::move(on.spans);
    known.facts.next_root = thread.next_root;
    known.facts.is_new = thread.is_new;
    if (thread.log != nullptr) known.facts.end = end_of(*thread.log);
  }
  state_.latest_start_ns = latest_start_ns;
  state_.events += static_cast<int32_t>(out.events.thread.size());
  out.unmatched_ends = state_.unmatched_ends += out.unmatched_ends;
  state_.cut_payloads = out.cut_payloads;
  write_threads(out);
  state_.python = std::move(python.rows());
  const size_t first = names_before_;
  state_.names = std::move(out.names);
  out.names = state_.names.from(first);
  std::sort(out.late.begin(), out.late.end(),
            [](const WrittenRow& a, const WrittenRow& b) { return a.event < b.event; });
}

// Writes all rows again, because torch's ids of the threads may be known only now.
void Piece::write_threads(Columns& out) const {
  const auto count = static_cast<size_t>(state_.threads_written);
  out.threads = {};
  out.threads.system_thread_id.resize(count);
  out.threads.torch_thread_id.resize(count);
  out.threads.name.resize(count, kNone);
  for (const CarriedThread& thread : state_.threads) {
    if (thread.facts.row == kNone) continue;
    const auto row = static_cast<size_t>(thread.facts.row);
    out.threads.system_thread_id[row] = thread.facts.system_thread_id;
    for (const ThreadView& view : log_.threads) {
      if (!thread.facts.has_log || view.facts.number != thread.facts.number) continue;
      out.threads.torch_thread_id[row] = static_cast<int64_t>(view.facts.torch_thread_id);
      out.threads.name[row] = out.names.add(view.facts.name);
    }
  }
}

}  // namespace opscope
