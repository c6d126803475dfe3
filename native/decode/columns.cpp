#include "decode/columns.h"

#include <algorithm>
#include <set>

#include "decode/arguments.h"
#include "decode/identity.h"
#include "decode/pieces.h"
#include "decode/python_columns.h"
#include "decode/source_columns.h"
#include "decode/spans.h"
#include "decode/window_clock.h"
#include "log/core_api.h"

namespace opscope {

namespace {

class WindowDecoder {
 public:
  // `piece`: nullptr for the whole window.
  WindowDecoder(const LogView& log, const std::vector<std::string>& prefixes, Piece* piece)
      : log_(log),
        window_(log.window),
        clock_(piece == nullptr ? clock_of(log) : *piece->state().clock),
        piece_(piece),
        first_event_(piece == nullptr ? 0 : piece->state().events),
        python_(out_, log.texts, prefixes) {}

  Columns run() {
    out_.start_ns = clock_ns(window_.started.ticks);
    out_.end_ns = piece_ == nullptr ? clock_.end_ns() : clock_ns(window_.stopped.ticks);
    out_.end_monotonic_ns = window_.stopped.monotonic_ns;
    out_.clock_jumped_ns = clock_.jumped_ns();
    out_.clock_set_by_ns = clock_.set_by_ns();
    latest_start_ns_ = out_.start_ns;
    if (piece_ != nullptr) latest_start_ns_ = piece_->go_on(out_, python_, out_.start_ns);
    for (const ThreadView& thread : log_.threads) collect_ends(thread);
    ends_.sort();
    for (const ThreadView& thread : log_.threads) collect(thread);
    collect_idle_threads();
    ends_.match();
    const uint64_t stopped = clock_.jumped_ns() == 0 ? window_.stopped.ticks : UINT64_MAX;
    for (ThreadSpans& thread : threads_) {
      // Not in a piece: added spans would come between the spans that the piece carries on.
      SourceColumns::for_each(piece_ == nullptr ? window_.wants : 0, [&](const SourceColumns& source) {
        source.arrange(thread, ends_, log_.texts);
      });
      nest_by_time(thread, ends_, stopped);
    }
    order_ = merge_by_start(threads_, first_event_);
    write_events();
    SourceColumns::for_each(window_.wants, [&](const SourceColumns& source) {
      source.write(spans_of(source.kind), log_.texts, python_, out_);
    });
    write_outputs();
    write_script_calls();
    write_parameters();
    write_allocations();
    out_.unmatched_ends = ends_.unmatched();
    if (piece_ == nullptr) {
      assign_identity(out_, clock_.unix_ns(window_.releases));
    } else {
      end_piece();
    }
    return std::move(out_);
  }

 private:
  int64_t clock_ns(uint64_t ticks) const { return clock_.unix_ns(ticks); }

  // If ticks have jumped, the positions in the log decide, and every record between them is in the window.
  bool in_window(uint64_t ticks) const {
    const bool outside = ticks < window_.started.ticks || ticks > window_.stopped.ticks;
    if (outside && clock_.jumped_ns() == 0) return false;
    return std::none_of(window_.pauses.begin(), window_.pauses.end(), [&](const Pause& pause) {
      return ticks >= pause.from_ticks && ticks < pause.to_ticks;
    });
  }

  void collect_ends(const ThreadView& view) {
    for_each_record(view, [&](uint64_t index, const Record& record) {
      if (record.kind != RecordKind::kClose || record.ticks < window_.started.ticks) return;
      const bool of_python = record.close.what != EndOf::kSpan;
      if (of_python && (window_.wants & kWantCalls) == 0 && window_.initial_stacks.empty()) return;
      ends_.add(record, &view, piece_ != nullptr && index >= piece_->end_of(view));
    });
  }

  void collect(const ThreadView& view) {
    ThreadSpans& thread = threads_.emplace_back();
    thread.log = &view;
    thread.system_thread_id = view.facts.system_thread_id;
    const bool continues = piece_ != nullptr && piece_->restore(thread, view);
    if (continues) find_carried_ends(thread, ends_, window_.started.ticks, view.facts.native_thread);
    for (const InitialStack& stack : window_.initial_stacks) {
      if (continues || !is_of(stack, view.facts)) continue;
      thread.is_new = false;
      add_initial_frames(thread, stack);
    }
    if (has_indices()) thread.indices.resize(thread.spans.size(), kNoIndex);
    const uint64_t end = piece_ == nullptr ? view.end : piece_->end_of(view);
    // By record of the view: ordinal of the span that it is, or is inside of. Children of a span that the
    // window does not want belong to that span's parent.
    std::vector<int32_t> enclosing(view.end - std::min(view.begin, view.end), kNone);
    for_each_record(view, [&](uint64_t index, const Record& record) {
      check_record(record);
      if (index >= end) return expect_after_piece(record);
      const uint32_t offset = record.parent - static_cast<uint32_t>(view.begin);
      const bool known = record.parent != kNoParent && offset < enclosing.size();
      const int32_t around = known ? enclosing[offset] : thread.carried_around(record.parent);
      const int32_t own = enclosing[index - view.begin] = add_record(thread, record, around);
      if (has_indices()) thread.indices.resize(thread.spans.size(), static_cast<uint32_t>(index));
      if (piece_ != nullptr) piece_->meet(thread, record, index, own);
    });
    out_.dropped.spans += view.dropped.spans;
    out_.dropped.allocations += view.dropped.allocations;
    out_.dropped.others += view.dropped.others;
    out_.recorded_threads += view.begin < view.end ? 1 : 0;
  }

  bool has_indices() const { return window_.process_ids || piece_ != nullptr; }

  // A span after this piece may own an end that the log already has.
  void expect_after_piece(const Record& record) {
    const bool is_wanted = is_span(record.kind) && (window_.wants & want_of(record.kind)) != 0;
    if (is_wanted && !is_closed(record.load_state()) && in_window(record.ticks)) ends_.expect(record);
  }

  // Threads without records were running Python functions too.
  void collect_idle_threads() {
    for (const InitialStack& stack : window_.initial_stacks) {
      if (stack.frames.empty()) continue;
      const bool known = std::any_of(log_.threads.begin(), log_.threads.end(),
                                     [&](const ThreadView& thread) { return is_of(stack, thread.facts); });
      if (known) continue;
      ThreadSpans& thread = threads_.emplace_back();
      thread.system_thread_id = stack.system_thread_id;
      if (piece_ != nullptr && piece_->restore_idle(thread, stack)) {
        find_carried_ends(thread, ends_, window_.started.ticks, stack.native_thread);
      } else {
        add_initial_frames(thread, stack);
      }
    }
  }

  void add_initial_frames(ThreadSpans& thread, const InitialStack& stack) {
    for (const InitialFrame& frame : stack.frames) {
      thread.initial.push_back(frame.span);
      thread.initial.back().ticks = window_.started.ticks;
    }
    find_initial_ends(thread, ends_, window_.started.ticks, stack.native_thread);
    for (size_t i = 0; i < thread.initial.size(); ++i) {
      thread.spans.push_back(&thread.initial[i]);
      thread.parents.push_back(static_cast<int32_t>(i) - 1);
    }
  }

  // Function from before the window in which a record without a parent ran.
  static int32_t initial_parent(ThreadSpans& thread, const Record& record) {
    const bool has_end = is_span(record.kind) && is_closed(record.load_state());
    const bool is_open = is_span(record.kind) && !has_end;
    const uint64_t end = is_open ? UINT64_MAX : has_end ? record.load_end() : record.ticks;
    for (size_t i = thread.initial_ends.size(); i-- > 0;) {
      const auto [until, is_noticed] = thread.initial_ends[i];
      if (until <= record.ticks) continue;
      if (until >= end) return static_cast<int32_t>(i);
      // An annotation may outlive the call that opened it. Any other record shows that a function whose end
      // was noticed late had ended before this record began.
      if (is_noticed && record.kind != RecordKind::kAnnotation) end_initial(thread, i, {record.ticks, true});
    }
    return kNone;
  }

  // Returns the ordinal of the span to which children of this record belong.
  int32_t add_record(ThreadSpans& thread, const Record& record, int32_t parent) {
    if (record.kind == RecordKind::kClose || !in_window(record.ticks)) return parent;
    if (parent == kNone) parent = initial_parent(thread, record);
    if (record.kind == RecordKind::kParameters) {
      if ((window_.wants & (kWantCalls | kWantModules)) != 0) thread.parameters.push_back(&record);
      return parent;
    }
    if (record.kind == RecordKind::kOutputs) {
      if ((window_.wants & kWantOutputs) != 0 && parent != kNone) {
        thread.outputs.push_back(&record);
        thread.output_spans.push_back(parent);
      }
      return parent;
    }
    if (record.kind == RecordKind::kScript) {
      if ((window_.wants & (kWantCalls | kWantModules)) != 0 && parent != kNone) {
        thread.scripts.push_back(&record);
        thread.script_spans.push_back(parent);
      }
      return parent;
    }
    if ((window_.wants & want_of(record.kind)) == 0) return parent;
    const bool is_new_thread = thread.is_new && (window_.wants & kWantCalls) != 0;
    if (is_new_thread && is_python(record.kind) && (window_.wants & kWantNewThreads) == 0) return parent;
    if (!is_span(record.kind)) {
      thread.memory.push_back(&record);
      thread.memory_spans.push_back(parent);
      thread.memory_after.push_back(static_cast<int32_t>(thread.spans.size()));
      return parent;
    }
    if (!is_closed(record.load_state())) ends_.expect(record);
    thread.is_nested = thread.is_nested && ends_in(record, parent == kNone ? nullptr : thread.spans[parent]);
    thread.spans.push_back(&record);
    thread.parents.push_back(parent);
    return static_cast<int32_t>(thread.spans.size() - 1);
  }

  std::vector<WrittenSpan> spans_of(RecordKind kind) const {
    std::vector<WrittenSpan> found;
    for (const ThreadSpans& thread : threads_) {
      for (size_t i = thread.carried.size(); i < thread.spans.size(); ++i) {
        if (thread.spans[i]->kind != kind) continue;
        const int32_t id = thread.ids[i];
        const auto row = static_cast<size_t>(id - first_event_);
        found.push_back({thread.spans[i], id, out_.events.start_ns[row], out_.events.duration_ns[row]});
      }
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.event < b.event; });
    return found;
  }

  void reserve_events() {
    const size_t count = order_.size();
    out_.events.for_each_column([&](const char*, auto& column, bool may_lack) {
      if (!may_lack || window_.process_ids) column.reserve(count);
    });
  }

  void write_events() {
    reserve_events();
    std::vector<size_t> next;
    std::vector<Payloads> payloads;
    for (const ThreadSpans& thread : threads_) {
      next.push_back(thread.carried.size());
      payloads.push_back(payloads_of(thread));
    }
    const bool inputs = (window_.wants & kWantInputs) != 0;
    ArgumentWriter writer(out_);
    for (const uint32_t t : order_) {
      const size_t i = next[t]++;
      const Record& record = *threads_[t].spans[i];
      write_event(t, i, record, thread_row(t));
      const bool has_payload = record.kind == RecordKind::kOperator || record.kind == RecordKind::kAnnotation;
      if (!has_payload || record.op.inputs == kNoArena) continue;
      const bool is_whole = payloads[t].read(record.op.inputs, [&](PayloadReader& payload) {
        if (inputs || head_for_all(*PayloadReader(payload).take(1)))
          writer.write(payload, last_event(), /*output=*/false);
      });
      out_.cut_payloads += inputs && !is_whole ? 1 : 0;
    }
  }

  int32_t last_event() const { return first_event_ + static_cast<int32_t>(out_.events.thread.size()) - 1; }

  int32_t thread_row(uint32_t t) {
    if (piece_ != nullptr) return piece_->thread_row(threads_[t], out_);
    thread_rows_.resize(threads_.size(), kNone);
    int32_t& row = thread_rows_[t];
    if (row == kNone) {
      const ThreadSpans& thread = threads_[t];
      row = static_cast<int32_t>(out_.threads.name.size());
      out_.threads.system_thread_id.push_back(thread.system_thread_id);
      out_.threads.torch_thread_id.push_back(
          thread.log == nullptr ? 0 : static_cast<int64_t>(thread.log->facts.torch_thread_id));
      out_.threads.name.push_back(thread.log == nullptr ? kNone : out_.names.add(thread.log->facts.name));
    }
    return row;
  }

  void write_event(uint32_t t, size_t i, const Record& record, int32_t thread) {
    EventColumns& e = out_.events;
    const int32_t local_parent = threads_[t].parents[i];
    const int32_t parent = local_parent == kNone ? kNone : threads_[t].ids[local_parent];
    // Keeps rows in order of time even if the ticks of two cores differ.
    const int64_t start_ns = latest_start_ns_ = std::max(clock_ns(record.ticks), latest_start_ns_);
    bool unfinished = false;
    bool is_async = false;
    const int64_t end_ns = end_of(threads_[t], i, parent, &unfinished, &is_async);
    const bool is_torch = record.kind == RecordKind::kOperator || record.kind == RecordKind::kAnnotation;
    e.thread.push_back(thread);
    e.parent.push_back(parent);
    e.name.push_back(name_of(record));
    e.overload.push_back(is_torch && (window_.wants & kWantOverloads) != 0
                             ? out_.names.overload_of(log_.texts, record.op.name)
                             : kNone);
    e.kind.push_back(static_cast<uint8_t>(record.kind));
    e.scope.push_back(record.scope);
    e.start_ns.push_back(start_ns);
    e.duration_ns.push_back(std::max<int64_t>(end_ns - start_ns, 0));
    e.sequence_number.push_back(is_torch ? record.op.sequence_number : kNone);
    e.forward_thread.push_back(is_torch ? static_cast<int32_t>(record.op.forward_thread) : 0);
    const uint32_t launch = record.kind == RecordKind::kAnnotation ? record.annotation.launch : 0;
    e.launch_thread.push_back(static_cast<int32_t>(launch & ~kAsynchronous));
    e.unfinished.push_back(unfinished);
    e.raised.push_back(!unfinished && record.load_state() == SpanState::kRaised);
    e.is_async.push_back(is_async || (launch & kAsynchronous) != 0);
    if (window_.process_ids) e.record_function_id.push_back(process_id(threads_[t], i));
    if ((window_.wants & (kWantCalls | kWantModules | kWantCompiled)) != 0) {
      const std::vector<int32_t>& callers = threads_[t].callers;
      const int32_t caller = callers.empty() || callers[i] == kNone ? kNone : threads_[t].ids[callers[i]];
      python_.add_event(record, last_event(), callers.empty() ? parent : caller);
    }
  }

  int32_t name_of(const Record& record) {
    if (is_python(record.kind)) return python_.event_name(record);
    if (record.kind == RecordKind::kCompiledGraph) {
      return out_.names.add_global(log_.texts, record.call.instance);
    }
    const bool is_run = record.kind == static_cast<RecordKind>(EventKind::kTaskRun);
    return out_.names.add_global(log_.texts, is_run ? record.task.text : record.op.name);
  }

  // Equal in every window: thread, and position in its log.
  static int64_t process_id(const ThreadSpans& thread, size_t i) {
    if (thread.log == nullptr || i >= thread.indices.size() || thread.indices[i] == kNoIndex) return -1;
    return static_cast<int64_t>(thread.log->facts.number << 32) + thread.indices[i] + 1;
  }

  static Payloads payloads_of(const ThreadSpans& thread) {
    return thread.log == nullptr ? Payloads() : Payloads(thread.log->arena);
  }

  int64_t end_of(const ThreadSpans& thread, size_t i, int32_t parent, bool* unfinished, bool* is_async) {
    const Record& record = *thread.spans[i];
    uint64_t ticks = 0;
    if (is_closed(record.load_state())) {
      ticks = record.load_end();
    } else {
      const Ends::End end = ends_.find(record);
      ticks = end.ticks;
      *is_async = ticks != 0 && end.thread != thread.log;
    }
    if (ticks != 0 && ticks <= window_.stopped.ticks) return clock_ns(ticks);
    // Without an end inside the window, it ends with its parent.
    *unfinished = true;
    if (ticks != 0) return out_.end_ns;
    if (!thread.ends.empty())
      return thread.ends[i] >= window_.stopped.ticks ? out_.end_ns : clock_ns(thread.ends[i]);
    return parent == kNone ? out_.end_ns : out_.events.start_ns[parent] + out_.events.duration_ns[parent];
  }

  void write_script_calls() {
    ScriptCallColumns& calls = out_.script_calls;
    const auto name = [&](uint32_t id, uint32_t want) {
      return id == kNoName || (window_.wants & want) == 0 ? kNone : out_.names.add_global(log_.texts, id);
    };
    for (const ThreadSpans& thread : threads_) {
      for (size_t i = 0; i < thread.scripts.size(); ++i) {
        const Record& record = *thread.scripts[i];
        calls.event.push_back(thread.ids[thread.script_spans[i]]);
        calls.modules.push_back(name(record.script.modules, kWantModules));
        calls.functions.push_back(name(record.script.functions, kWantCalls));
      }
    }
  }

  void write_outputs() {
    ArgumentWriter writer(out_);
    for (size_t t = 0; t < threads_.size(); ++t) {
      Payloads payloads = payloads_of(threads_[t]);
      for (size_t i = 0; i < threads_[t].outputs.size(); ++i) {
        const Record& record = *threads_[t].outputs[i];
        if (record.results.values == kNoArena) continue;
        const int32_t event = threads_[t].ids[threads_[t].output_spans[i]];
        const bool is_whole = payloads.read(record.results.values, [&](PayloadReader& payload) {
          writer.write(payload, event, /*output=*/true);
        });
        out_.cut_payloads += is_whole ? 0 : 1;
      }
    }
  }

  // Each new window reads an instance again; the first reading in this window counts.
  void write_parameters() {
    ArgumentWriter writer(out_);
    std::set<std::pair<Owner, uint32_t>> own;
    std::set<std::pair<Owner, uint32_t>>& read = piece_ == nullptr ? own : piece_->state().parameters_read;
    for (const ThreadSpans& thread : threads_) {
      Payloads payloads = payloads_of(thread);
      for (const Record* record : thread.parameters) {
        const auto [instance, values, owner] = record->parameters;
        if (!read.emplace(owner, instance).second) continue;
        const bool is_module = owner == Owner::kModule;
        const int32_t module = is_module ? python_.module_row(instance) : kNone;
        const int32_t optimizer = is_module ? kNone : python_.optimizer_row(instance);
        const bool is_whole = payloads.read(values, [&, when = record->ticks](PayloadReader& payload) {
          writer.write_parameters(payload, module, optimizer, clock_ns(when));
        });
        out_.cut_payloads += is_whole ? 0 : 1;
      }
    }
  }

  void write_allocations() {
    struct Row {
      uint64_t ticks;
      uint32_t thread;
      uint32_t index;
    };
    std::vector<Row> rows;
    std::vector<Payloads> payloads;
    for (uint32_t t = 0; t < threads_.size(); ++t) {
      payloads.push_back(payloads_of(threads_[t]));
      for (uint32_t i = 0; i < threads_[t].memory.size(); ++i) {
        rows.push_back({threads_[t].memory[i]->ticks, t, i});
      }
    }
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ticks < b.ticks; });
    AllocationColumns& a = out_.allocations;
    for (const Row& row : rows) {
      const Record& record = *threads_[row.thread].memory[row.index];
      const int32_t span = threads_[row.thread].memory_spans[row.index];
      const MemoryPart& memory = record.memory;
      uint64_t reserved = 0;
      if (memory.reserved != kNoArena)
        payloads[row.thread].read(memory.reserved,
                                  [&](PayloadReader& payload) { reserved = *payload.take(1); });
      a.event.push_back(span == kNone ? kNone : threads_[row.thread].ids[span]);
      a.thread.push_back(thread_row(row.thread));
      a.action.push_back(static_cast<uint8_t>(record.kind) - static_cast<uint8_t>(RecordKind::kAllocate));
      a.time_ns.push_back(clock_ns(record.ticks));
      a.address.push_back(memory.address);
      a.size_bytes.push_back(memory.size_bytes);
      a.total_allocated_bytes.push_back(static_cast<int64_t>(memory.total_allocated_bytes));
      a.total_reserved_bytes.push_back(static_cast<int64_t>(reserved));
      a.device_type.push_back(memory.device_type);
      a.device_index.push_back(memory.device_index);
    }
  }

  // Carries open spans on to the next piece, and writes rows of earlier spans with a new end or parent again.
  void end_piece() {
    assign_no_identity(out_);
    for (ThreadSpans& thread : threads_) {
      for (size_t i = 0; i < thread.spans.size(); ++i) {
        const bool continues = piece_->continues(thread, i, ends_);
        if (i < thread.carried.size()) piece_->amend(thread, i, written(thread, i), out_);
        if (continues) {
          piece_->carry_on(thread, i, written(thread, i), python_);
        } else {
          piece_->release(thread, i);
        }
      }
    }
    piece_->end(threads_, out_, python_, latest_start_ns_);
  }

  // Columns of a span's row that may change later.
  WrittenRow written(const ThreadSpans& thread, size_t i) {
    const int32_t parent = thread.parents[i] == kNone ? kNone : thread.ids[thread.parents[i]];
    WrittenRow row;
    row.event = thread.ids[i];
    row.parent = parent;
    bool unfinished = false;
    bool is_async = false;
    const int64_t end_ns = end_of(thread, i, parent, &unfinished, &is_async);
    const Record& record = *thread.spans[i];
    const uint32_t launch = record.kind == RecordKind::kAnnotation ? record.annotation.launch : 0;
    const bool is_carried = i < thread.carried.size();
    row.start_ns =
        is_carried ? thread.carried[i].row.start_ns : out_.events.start_ns[row.event - first_event_];
    row.duration_ns = std::max<int64_t>(end_ns - row.start_ns, 0);
    row.unfinished = unfinished;
    row.raised = !unfinished && record.load_state() == SpanState::kRaised;
    row.is_async = is_async || (launch & kAsynchronous) != 0;
    return row;
  }

  const LogView& log_;
  const WindowFacts& window_;
  WindowClock clock_;
  Piece* const piece_;
  const int32_t first_event_;
  int64_t latest_start_ns_ = 0;
  std::deque<ThreadSpans> threads_;   // elements never move: spans point to them
  std::vector<uint32_t> order_;       // thread of each event, by event id
  std::vector<int32_t> thread_rows_;  // row in the threads table, created on first use
  Ends ends_;
  Columns out_;
  PythonColumnWriter python_;
};

}  // namespace

Columns decode_window(const LogView& log, const std::vector<std::string>& prefixes) {
  return WindowDecoder(log, prefixes, nullptr).run();
}

Columns decode_piece(const LogView& log, const std::vector<std::string>& prefixes, Piece& piece) {
  return WindowDecoder(log, prefixes, &piece).run();
}

}  // namespace opscope
