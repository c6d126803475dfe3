#include "writers/execution_trace.h"

#include "writers/wrapping_times.h"

namespace opscope::writers {
namespace {

void write_thread(TextBuffer& out, uint64_t id, int64_t thread) {
  out.put(",\n{\"id\":", id,
          ",\"name\":\"[pytorch|profiler|execution_trace|thread]\",\"ctrl_deps\":1,"
          "\"inputs\":{\"values\":[],\"shapes\":[],\"types\":[],\"strides\":[]},"
          "\"outputs\":{\"values\":[],\"shapes\":[],\"types\":[],\"strides\":[]},"
          "\"attrs\":[{\"name\":\"rf_id\",\"type\":\"uint64\",\"value\":0},"
          "{\"name\":\"fw_parent\",\"type\":\"uint64\",\"value\":0},"
          "{\"name\":\"seq_id\",\"type\":\"int64\",\"value\":-1},"
          "{\"name\":\"scope\",\"type\":\"uint64\",\"value\":7},"
          "{\"name\":\"tid\",\"type\":\"uint64\",\"value\":",
          thread,
          "},{\"name\":\"fw_tid\",\"type\":\"uint64\",\"value\":0},"
          "{\"name\":\"op_schema\",\"type\":\"string\",\"value\":\"\"},"
          "{\"name\":\"kernel_backend\",\"type\":\"string\",\"value\":\"\"},"
          "{\"name\":\"kernel_file\",\"type\":\"string\",\"value\":\"\"},"
          "{\"name\":\"tensor_range\",\"type\":\"string\",\"value\":\"\"}]}");
}

}  // namespace

void ExecutionTraceWriter::begin(NodeTrace trace) {
  trace_ = std::move(trace);
  names_ = EscapedNames(trace_->name_offsets, trace_->name_bytes);
  walk_.begin(*trace_);
  values_ = std::make_unique<ValueWriter>(trace_->tensors, trace_->scalars, trace_->names, names_,
                                          walk_.objects, walk_.next_id, segment_++);
  next_ = 0;
}

bool ExecutionTraceWriter::write(TextBuffer& out, size_t bytes) {
  const size_t count = trace_ ? trace_->events.size() : 0;
  if (next_ >= count) return false;
  for (; next_ < count && out.size() < bytes; ++next_) {
    Node node{};
    uint64_t new_thread = 0;
    const bool is_node = walk_.next(next_, node, new_thread);
    if (new_thread != 0) write_thread(out, new_thread, node.thread);
    if (is_node) write_node(out, node);
  }
  return true;
}

SchemaSize ExecutionTraceWriter::size_of(size_t row) const {
  const int32_t schema = trace_->events.schema[row];
  return schema < 0 ? SchemaSize{} : trace_->schema_sizes.at(static_cast<size_t>(schema));
}

void ExecutionTraceWriter::write_node(TextBuffer& out, const Node& node) {
  const NodeEvents& e = trace_->events;
  const size_t row = node.row;
  static const KernelText no_kernel;
  const KernelText& kernel =
      e.kernel[row] < 0 ? no_kernel : trace_->kernels.at(static_cast<size_t>(e.kernel[row]));
  out.put(",\n{\"id\":", node.id, ",\"name\":\"", names_[e.name[row]], "\",\"ctrl_deps\":", node.parent,
          ",\"inputs\":");
  const SchemaSize size = size_of(row);
  values_->write_inputs(out, row, size.inputs, kernel.stream);
  out.put(",\"outputs\":");
  values_->write_outputs(out, row, size.outputs);
  out.put(",\"attrs\":[{\"name\":\"rf_id\",\"type\":\"uint64\",\"value\":", node.record_function_id,
          "},{\"name\":\"fw_parent\",\"type\":\"uint64\",\"value\":", node.forward_parent,
          "},{\"name\":\"seq_id\",\"type\":\"int64\",\"value\":", e.sequence_number[row],
          "},{\"name\":\"scope\",\"type\":\"uint64\",\"value\":", e.scope[row],
          "},{\"name\":\"tid\",\"type\":\"uint64\",\"value\":", node.thread,
          "},{\"name\":\"fw_tid\",\"type\":\"uint64\",\"value\":", e.forward_thread[row],
          "},{\"name\":\"op_schema\",\"type\":\"string\",\"value\":\"");
  if (e.schema[row] >= 0) out.put(trace_->schemas.at(static_cast<size_t>(e.schema[row])));
  out.put("\"},{\"name\":\"kernel_backend\",\"type\":\"string\",\"value\":\"", kernel.backend,
          "\"},{\"name\":\"kernel_file\",\"type\":\"string\",\"value\":\"", kernel.file,
          "\"},{\"name\":\"tensor_range\",\"type\":\"string\",\"value\":\"\"}");
  const auto extras = trace_->extras.rows[row];
  for (size_t i = extras.begin; i < extras.end; ++i) {
    out.put(trace_->fragments.at(static_cast<size_t>(trace_->extras.fragment[i])));
  }
  out.put(']');
  if (trace_->has_times) write_times(out, row);
  out.put('}');
}

void ExecutionTraceWriter::write_times(TextBuffer& out, size_t row) const {
  out.put(",\"ts\":", Microseconds{difference_of(trace_->events.start_ns[row], trace_->base_ns)},
          ",\"inclusive_dur\":", Microseconds{trace_->events.duration_ns[row]},
          ",\"exclusive_dur\":", Microseconds{trace_->events.self_ns[row]});
}

}  // namespace opscope::writers
