// Runs of asyncio tasks: the task of each, and the annotations inside.
//
// An open annotation of a waiting task would contain all work done during the wait. So it ends with the run
// in which it began, and begins again in each later run of its task until it ends.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "decode/source_columns.h"

namespace opscope {

namespace {

constexpr auto kTaskRun = static_cast<RecordKind>(EventKind::kTaskRun);

// Name of a step of the whole program, in any task.
constexpr std::string_view kStepPrefix = "ProfilerStep#";

int64_t task_of(const Record& run) { return static_cast<int64_t>(run.task.task); }

class Continuing {
 public:
  Continuing(ThreadSpans& thread, const Ends& ends, const Texts& texts)
      : thread_(thread), ends_(ends), texts_(texts), before_(thread) {}

  void run() {
    thread_.spans.clear();
    thread_.parents.clear();
    const bool has_indices = !thread_.indices.empty();
    thread_.indices.clear();
    for (size_t i = 0; i < before_.spans.size(); ++i) {
      const Record& record = *before_.spans[i];
      const int32_t parent = before_.parents[i];
      const bool is_run = record.kind == kTaskRun;
      runs_.push_back(is_run ? static_cast<int32_t>(i) : parent == kNone ? kNone : runs_[parent]);
      places_.push_back(static_cast<int32_t>(thread_.spans.size()));
      add(part_until_await(record, runs_[i]), parent == kNone ? kNone : places_[parent]);
      if (is_run) go_on(record, places_[i]);
      if (!has_indices) continue;
      thread_.indices.push_back(before_.indices[i]);
      thread_.indices.resize(thread_.spans.size(), kNoIndex);
    }
    for (std::vector<int32_t>* ordinals :
         {&thread_.memory_spans, &thread_.output_spans, &thread_.script_spans}) {
      for (int32_t& ordinal : *ordinals) ordinal = ordinal == kNone ? kNone : places_[ordinal];
    }
    for (int32_t& count : thread_.memory_after) {
      const auto all = static_cast<int32_t>(places_.size());
      count = count < all ? places_[count] : static_cast<int32_t>(thread_.spans.size());
    }
  }

 private:
  // An annotation that continues in later runs of its task.
  struct Held {
    const Record* record;
    uint64_t end;
  };

  void add(const Record& record, int32_t parent) {
    thread_.spans.push_back(&record);
    thread_.parents.push_back(parent);
  }

  // The span itself; if it outlives its run, the part inside that run.
  const Record& part_until_await(const Record& record, int32_t run) {
    if (run == kNone || record.kind != RecordKind::kAnnotation) return record;
    const Record& around = *before_.spans[run];
    const Ends::End end = ends_.find(record);
    const uint64_t awaits = ends_.end_of(around);
    const bool is_held =
        record.load_state() == SpanState::kAbandoned && end.thread == thread_.log && awaits < end.ticks;
    if (!is_held || is_step(record)) return record;
    held_[task_of(around)].push_back({&record, end.ticks});
    return part_of(record, record.ticks, awaits);
  }

  bool is_step(const Record& annotation) const {
    return texts_.name(annotation.op.name).text.starts_with(kStepPrefix);
  }

  void go_on(const Record& run, int32_t place) {
    const auto held = held_.find(task_of(run));
    if (held == held_.end()) return;
    const uint64_t awaits = ends_.end_of(run);
    std::erase_if(held->second, [&](const Held& annotation) { return annotation.end <= run.ticks; });
    int32_t parent = place;
    for (const Held& annotation : held->second) {
      Record& part = part_of(*annotation.record, run.ticks, std::min(annotation.end, awaits));
      part.op.inputs = kNoArena;
      add(part, parent);
      parent = static_cast<int32_t>(thread_.spans.size()) - 1;
    }
  }

  Record& part_of(const Record& whole, uint64_t start, uint64_t end) {
    thread_.is_nested = false;
    Record& part = thread_.made.emplace_back(whole);
    part.ticks = start;
    if (end == UINT64_MAX) return part;  // unfinished, like the run
    part.store_end(end);
    part.store_state(SpanState::kClosed);
    return part;
  }

  ThreadSpans& thread_;
  const Ends& ends_;
  const Texts& texts_;
  const ThreadSpans before_;
  std::vector<int32_t> runs_;                            // by old ordinal: run that contains it
  std::vector<int32_t> places_;                          // by old ordinal: new ordinal
  std::unordered_map<int64_t, std::vector<Held>> held_;  // by task
};

class TaskColumnsWriter final : public SourceColumns {
 public:
  TaskColumnsWriter() : SourceColumns(kWantAsyncio, kTaskRun) {}

  void arrange(ThreadSpans& thread, const Ends& ends, const Texts& texts) const override {
    const bool outlives = std::any_of(thread.spans.begin(), thread.spans.end(), [](const Record* record) {
      return record->kind == RecordKind::kAnnotation && record->load_state() == SpanState::kAbandoned;
    });
    if (outlives) Continuing(thread, ends, texts).run();
  }

  void write(const std::vector<WrittenSpan>& spans, const Texts& texts, PythonColumnWriter& python,
             Columns& out) const override {
    std::unordered_map<int64_t, int32_t> rows;  // by task number
    std::vector<int64_t> awaited_ns;            // by row: end of its last run
    for (const WrittenSpan& span : spans) {
      const Record& run = *span.record;
      const auto [entry, is_new] = rows.try_emplace(task_of(run), static_cast<int32_t>(rows.size()));
      const int32_t row = entry->second;
      if (is_new) {
        out.tasks.name.push_back(kNone);
        out.tasks.frame.push_back(python.frame_row(run.task.coroutine));
      }
      out.tasks.name[row] = name_of(run, texts, out);  // its latest name
      out.task_runs.event.push_back(span.event);
      out.task_runs.task.push_back(row);
      out.task_runs.waited_ns.push_back(is_new ? kNone
                                               : std::max<int64_t>(span.start_ns - awaited_ns[row], 0));
      awaited_ns.resize(rows.size());
      awaited_ns[row] = span.start_ns + span.duration_ns;
    }
  }

 private:
  static int32_t name_of(const Record& run, const Texts& texts, Columns& out) {
    if (run.task.is_numbered != 0) return out.names.add("Task-" + std::to_string(run.task.task_name));
    return out.names.add_global(texts, run.task.task_name);
  }
};

const TaskColumnsWriter writer;

}  // namespace

}  // namespace opscope
