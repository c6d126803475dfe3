#include "execution_trace.h"

#include <algorithm>

namespace opscope::writers {
namespace {

constexpr uint8_t kAnnotation = 1;  // EventKind: operators and annotations are nodes

bool is_node(uint8_t kind) { return kind <= kAnnotation; }

}  // namespace

void ExecutionTraceWriter::begin(NodeTrace trace) {
  trace_ = std::move(trace);
  names_ = EscapedNames(trace_.name_offsets, trace_.name_bytes);
  values_ = std::make_unique<ValueWriter>(trace_.tensors, trace_.scalars, trace_.names, names_, objects_,
                                          next_id_, segment_++);
  next_ = 0;
  ids_.assign(trace_.events.start_ns.size, 0);
  threads_.assign(std::max<size_t>(trace_.thread_numbers.size, 1), {});
  thread_rows_.clear();
}

bool ExecutionTraceWriter::write(TextBuffer& out, size_t bytes) {
  const size_t count = trace_.events.start_ns.size;
  if (next_ >= count) return false;
  while (next_ < count && out.size() < bytes) write_event(out, next_++);
  return true;
}

void ExecutionTraceWriter::write_event(TextBuffer& out, size_t row) {
  const NodeEvents& e = trace_.events;
  const int32_t thread_row = e.thread[row];
  const bool known = thread_row >= 0 && static_cast<size_t>(thread_row) < trace_.thread_numbers.size;
  const int64_t own = known ? trace_.thread_numbers[static_cast<size_t>(thread_row)] : 0;
  const int64_t thread = e.launch_thread[row] != 0 ? e.launch_thread[row] : own;
  const uint64_t parent = parent_of(out, row, thread);
  if (!is_node(e.kind[row])) {
    ids_[row] = parent;  // what ran inside it belongs to what is around it
    return;
  }
  if (known) {
    threads_[static_cast<size_t>(thread_row)].last_event = static_cast<int32_t>(row);
    if (own != 0) thread_rows_[own] = static_cast<size_t>(thread_row);
  }
  const uint64_t id = next_id_++;
  ids_[row] = id;
  const uint64_t forward_parent = forward_parent_of(row, own, parent);
  static const KernelText no_kernel;
  const KernelText& kernel =
      e.kernel[row] < 0 ? no_kernel : trace_.kernels.at(static_cast<size_t>(e.kernel[row]));
  out.put(",\n{\"id\":");
  out.number(id);
  out.put(",\"name\":\"");
  out.put(names_[e.name[row]]);
  out.put("\",\"ctrl_deps\":");
  out.number(parent);
  out.put(",\"inputs\":");
  values_->write_inputs(out, row, kernel.stream, "\"Int\"");
  out.put(",\"outputs\":");
  values_->write_outputs(out, row);
  out.put(",\"attrs\":[{\"name\":\"rf_id\",\"type\":\"uint64\",\"value\":");
  out.number(e.record_function_id[row] >= 0 ? e.record_function_id[row] : static_cast<int64_t>(row) + 1);
  out.put("},{\"name\":\"fw_parent\",\"type\":\"uint64\",\"value\":");
  out.number(forward_parent);
  out.put("},{\"name\":\"seq_id\",\"type\":\"int64\",\"value\":");
  out.number(e.sequence_number[row]);
  out.put("},{\"name\":\"scope\",\"type\":\"uint64\",\"value\":");
  out.number(unsigned{e.scope[row]});
  out.put("},{\"name\":\"tid\",\"type\":\"uint64\",\"value\":");
  out.number(thread);
  out.put("},{\"name\":\"fw_tid\",\"type\":\"uint64\",\"value\":");
  out.number(e.forward_thread[row]);
  out.put("},{\"name\":\"op_schema\",\"type\":\"string\",\"value\":\"");
  if (e.schema[row] >= 0) out.put(trace_.schemas.at(static_cast<size_t>(e.schema[row])));
  out.put("\"},{\"name\":\"kernel_backend\",\"type\":\"string\",\"value\":\"");
  out.put(kernel.backend);
  out.put("\"},{\"name\":\"kernel_file\",\"type\":\"string\",\"value\":\"");
  out.put(kernel.file);
  out.put("\"},{\"name\":\"tensor_range\",\"type\":\"string\",\"value\":\"\"}");
  const auto extras = trace_.extras.rows[row];
  for (size_t i = extras.begin; i < extras.end; ++i) {
    out.put(trace_.fragments.at(static_cast<size_t>(trace_.extras.fragment[i])));
  }
  out.put(']');
  if (trace_.has_times) write_times(out, row);
  out.put('}');
}

void ExecutionTraceWriter::write_times(TextBuffer& out, size_t row) const {
  out.put(",\"ts\":");
  out.microseconds(trace_.events.start_ns[row] - trace_.base_ns);
  out.put(",\"inclusive_dur\":");
  out.microseconds(trace_.events.duration_ns[row]);
  out.put(",\"exclusive_dur\":");
  out.microseconds(trace_.events.self_ns[row]);
}

uint64_t ExecutionTraceWriter::parent_of(TextBuffer& out, size_t row, int64_t thread) {
  const NodeEvents& e = trace_.events;
  if (e.launch_thread[row] != 0) {
    const uint64_t launcher = open_on(e.launch_thread[row], e.start_ns[row], row);
    if (launcher != 0) return launcher;
  } else if (const int32_t parent = e.parent[row]; parent >= 0 && static_cast<size_t>(parent) < row) {
    return ids_[static_cast<size_t>(parent)];
  }
  return root_of(out, thread);
}

// Where the thread that ran the forward is now: on the same thread the node around this one.
uint64_t ExecutionTraceWriter::forward_parent_of(size_t row, int64_t thread, uint64_t parent) const {
  const int32_t forward = trace_.events.forward_thread[row];
  if (forward == 0) return 0;
  if (forward == thread) return parent;
  const uint64_t open = open_on(forward, trace_.events.start_ns[row], row);
  if (open != 0) return open;
  const auto root = roots_.find(forward);
  return root == roots_.end() ? 0 : root->second;
}

// The innermost node that is open on a thread when event `row` starts, 0 if there is none.
uint64_t ExecutionTraceWriter::open_on(int32_t torch_thread, int64_t time_ns, size_t row) const {
  const auto found = thread_rows_.find(torch_thread);
  if (found == thread_rows_.end()) return 0;
  const NodeEvents& e = trace_.events;
  auto child = static_cast<int64_t>(row);
  int32_t event = threads_[found->second].last_event;
  // Parents precede children, which also ends the walk on a damaged table.
  while (event >= 0 && event < child) {
    const auto i = static_cast<size_t>(event);
    if (is_node(e.kind[i]) && e.start_ns[i] + e.duration_ns[i] > time_ns) return ids_[i];
    child = event;
    event = e.parent[i];
  }
  return 0;
}

// A thread's own node is written before its first event.
uint64_t ExecutionTraceWriter::root_of(TextBuffer& out, int64_t thread) {
  const auto [root, is_new] = roots_.try_emplace(thread, next_id_);
  if (is_new) write_thread(out, thread, next_id_++);
  return root->second;
}

void ExecutionTraceWriter::write_thread(TextBuffer& out, int64_t thread, uint64_t id) const {
  out.put(",\n{\"id\":");
  out.number(id);
  out.put(
      ",\"name\":\"[pytorch|profiler|execution_trace|thread]\",\"ctrl_deps\":1,"
      "\"inputs\":{\"values\":[],\"shapes\":[],\"types\":[],\"strides\":[]},"
      "\"outputs\":{\"values\":[],\"shapes\":[],\"types\":[],\"strides\":[]},"
      "\"attrs\":[{\"name\":\"rf_id\",\"type\":\"uint64\",\"value\":0},"
      "{\"name\":\"fw_parent\",\"type\":\"uint64\",\"value\":0},"
      "{\"name\":\"seq_id\",\"type\":\"int64\",\"value\":-1},"
      "{\"name\":\"scope\",\"type\":\"uint64\",\"value\":7},"
      "{\"name\":\"tid\",\"type\":\"uint64\",\"value\":");
  out.number(thread);
  out.put(
      "},{\"name\":\"fw_tid\",\"type\":\"uint64\",\"value\":0},"
      "{\"name\":\"op_schema\",\"type\":\"string\",\"value\":\"\"},"
      "{\"name\":\"kernel_backend\",\"type\":\"string\",\"value\":\"\"},"
      "{\"name\":\"kernel_file\",\"type\":\"string\",\"value\":\"\"},"
      "{\"name\":\"tensor_range\",\"type\":\"string\",\"value\":\"\"}]}");
}

}  // namespace opscope::writers
