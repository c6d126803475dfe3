// Chakra's nodes (et_def.proto of mlcommons/chakra), each with its length in front.
#include <algorithm>
#include <string_view>

#include "writers/execution_trace.h"
#include "writers/protobuf.h"
#include "writers/wrapping_times.h"

namespace opscope::writers {
namespace {

// Fields of Node.
constexpr uint32_t kId = 1;
constexpr uint32_t kName = 2;
constexpr uint32_t kType = 3;
constexpr uint32_t kCtrlDeps = 4;
constexpr uint32_t kDataDeps = 5;
constexpr uint32_t kStartTimeMicros = 6;
constexpr uint32_t kDurationMicros = 7;
constexpr uint32_t kInputs = 8;
constexpr uint32_t kOutputs = 9;
constexpr uint32_t kAttr = 10;

// Fields of AttributeProto.
constexpr uint32_t kAttrName = 1;
constexpr uint32_t kInt64Value = 9;
constexpr uint32_t kBoolValue = 27;
constexpr uint32_t kStringValue = 29;

constexpr uint64_t kCompNode = 4;  // NodeType
constexpr uint64_t kFirstGpuId = uint64_t{1} << 32;
constexpr std::string_view kThread = "[pytorch|profiler|execution_trace|thread]";

void put_int(TextBuffer& out, std::string_view name, int64_t value) {
  Nested attr(out, kAttr);
  put_bytes(out, kAttrName, name);
  put_field(out, kInt64Value, static_cast<uint64_t>(value));
  attr.close();
}

void put_bool(TextBuffer& out, std::string_view name, bool value) {
  Nested attr(out, kAttr);
  put_bytes(out, kAttrName, name);
  put_field(out, kBoolValue, value ? 1 : 0);
  attr.close();
}

void put_text(TextBuffer& out, std::string_view name, std::string_view value) {
  Nested attr(out, kAttr);
  put_bytes(out, kAttrName, name);
  put_bytes(out, kStringValue, value);
  attr.close();
}

uint64_t microseconds(int64_t nanoseconds) {
  return static_cast<uint64_t>(std::max<int64_t>(nanoseconds, 0)) / 1000;
}

}  // namespace

void ExecutionTraceWriter::write_chakra(TextBuffer& out, const Node& node) {
  const NodeEvents& e = trace_.events;
  const size_t row = node.row;
  Message message(out);
  put_field(out, kId, node.id);
  put_bytes(out, kName, plain_name(e.name[row]));
  put_field(out, kType, trace_.chakra.type[row]);
  write_chakra_dependencies(out, node);
  put_field(out, kStartTimeMicros, microseconds(difference_of(e.start_ns[row], trace_.base_ns)));
  put_field(out, kDurationMicros, microseconds(e.self_ns[row]));
  const SchemaSize size = size_of(row);
  values_->write_chakra(out, kInputs, row, size.inputs, true);
  values_->write_chakra(out, kOutputs, row, size.outputs, false);
  put_int(out, "rf_id", node.record_function_id);
  put_int(out, "fw_parent", static_cast<int64_t>(node.forward_parent));
  put_int(out, "seq_id", e.sequence_number[row]);
  put_int(out, "scope", e.scope[row]);
  put_int(out, "tid", node.thread);
  put_int(out, "fw_tid", e.forward_thread[row]);
  put_text(out, "op_schema",
           e.schema[row] < 0 ? std::string_view() : trace_.schemas.at(static_cast<size_t>(e.schema[row])));
  put_bool(out, "is_cpu_op", true);
  const auto extras = trace_.extras.rows[row];
  for (size_t i = extras.begin; i < extras.end; ++i) {
    put_bytes(out, kAttr, trace_.fragments.at(static_cast<size_t>(trace_.extras.fragment[i])));
  }
  message.close();
}

// The node before it on its thread, because a thread runs one after another, and what else it had
// to wait for.
void ExecutionTraceWriter::write_chakra_dependencies(TextBuffer& out, const Node& node) {
  put_field(out, kCtrlDeps, node.parent);
  uint64_t& before = before_.try_emplace(node.own_thread, node.parent).first->second;
  put_field(out, kDataDeps, before);
  const bool is_handed_over = node.thread != node.own_thread && node.parent != before;
  if (is_handed_over) put_field(out, kDataDeps, node.parent);
  const auto others = trace_.chakra.dependency_rows[node.row];
  for (size_t i = others.begin; i < others.end; ++i) {
    const uint64_t id = dependency_id(trace_.chakra.dependency[i]);
    const bool is_there = id == before || (is_handed_over && id == node.parent);
    if (id != 0 && id != node.id && !is_there) put_field(out, kDataDeps, id);
  }
  before = node.id;
}

std::string_view ExecutionTraceWriter::plain_name(int32_t name) const {
  const auto i = static_cast<size_t>(name);
  if (name < 0 || i + 1 >= trace_.name_offsets.size) return {};
  const int64_t begin = trace_.name_offsets[i];
  const int64_t end = trace_.name_offsets[i + 1];
  if (begin < 0 || end < begin || static_cast<size_t>(end) > trace_.name_bytes.size) return {};
  return {reinterpret_cast<const char*>(trace_.name_bytes.data) + begin, static_cast<size_t>(end - begin)};
}

uint64_t ExecutionTraceWriter::dependency_id(int64_t dependency) const {
  if (dependency < 0) return kFirstGpuId + static_cast<uint64_t>(-1 - dependency);
  return walk_.id_of(static_cast<size_t>(dependency));
}

void ExecutionTraceWriter::write_chakra_thread(TextBuffer& out, uint64_t id, int64_t thread) const {
  Message message(out);
  put_field(out, kId, id);
  put_bytes(out, kName, kThread);
  put_field(out, kType, kCompNode);
  put_int(out, "tid", thread);
  put_bool(out, "is_cpu_op", true);
  message.close();
}

void ExecutionTraceWriter::write_chakra_gpu(TextBuffer& out, size_t row) {
  const ChakraNodes& c = trace_.chakra;
  Message message(out);
  put_field(out, kId, kFirstGpuId + row);
  put_bytes(out, kName, plain_name(c.gpu_name[row]));
  put_field(out, kType, c.gpu_type[row]);
  const int32_t launch = c.gpu_launch[row];
  const uint64_t launcher = launch < 0 ? 0 : walk_.id_of(static_cast<size_t>(launch));
  if (launcher != 0) put_field(out, kCtrlDeps, launcher);
  if (launcher != 0) put_field(out, kDataDeps, launcher);
  const auto others = c.gpu_dependency_rows[row];
  for (size_t i = others.begin; i < others.end; ++i) {
    const uint64_t id = dependency_id(c.gpu_dependency[i]);
    if (id != 0 && id != launcher) put_field(out, kDataDeps, id);
  }
  put_field(out, kStartTimeMicros, microseconds(difference_of(c.gpu_start_ns[row], trace_.base_ns)));
  put_field(out, kDurationMicros, microseconds(c.gpu_duration_ns[row]));
  put_bool(out, "is_cpu_op", false);
  put_int(out, "stream", c.gpu_stream[row]);
  const auto extras = c.gpu_extras.rows[row];
  for (size_t i = extras.begin; i < extras.end; ++i) {
    put_bytes(out, kAttr, trace_.fragments.at(static_cast<size_t>(c.gpu_extras.fragment[i])));
  }
  message.close();
}

}  // namespace opscope::writers
