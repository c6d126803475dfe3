// Nodes in the format of torch's ExecutionTraceObserver, from the columns of a process's traces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "numpy/column_source.h"
#include "writers/execution_trace_values.h"
#include "writers/json_escape.h"
#include "writers/text_buffer.h"

namespace opscope::writers {

// Columns of columns/schema.py, and columns created for the file.
struct NodeEvents : TableColumns {
  NodeEvents(const ColumnSource& from, size_t schemas, size_t kernels)
      : TableColumns(from, "events", from.any<int64_t>("events.start_ns").size),
        schema(indices<int32_t>("schema", schemas, -1)),
        kernel(indices<int32_t>("kernel", kernels, -1)) {}

  ColumnView<int32_t> thread = column("thread");
  ColumnView<int32_t> parent = indices<int32_t>("parent", size(), -1);
  ColumnView<int32_t> name = column("name");
  ColumnView<int32_t> schema;  // row in NodeTrace::schemas, -1 for none
  ColumnView<int32_t> kernel;  // row in NodeTrace::kernels, -1 for none
  ColumnView<int32_t> forward_thread = column("forward_thread");
  ColumnView<int32_t> launch_thread = column("launch_thread");
  ColumnView<uint8_t> kind = column("kind");
  ColumnView<uint8_t> scope = column("scope");
  ColumnView<int64_t> start_ns = column("start_ns");
  ColumnView<int64_t> duration_ns = column("duration_ns");
  ColumnView<int64_t> self_ns = column("self_ns");
  ColumnView<int64_t> sequence_number = column("sequence_number");
  ColumnView<int64_t> record_function_id = column("record_function_id");
};

// Numbers of an operator's arguments and results.
struct SchemaSize {
  size_t inputs = SIZE_MAX;
  size_t outputs = SIZE_MAX;
};

// Finished JSON texts of a generated kernel.
struct KernelText {
  std::string backend;
  std::string file;
  std::string stream;  // a further input; empty if none
};

// Further attributes of an event: finished JSON in NodeTrace::fragments.
struct NodeExtras {
  NodeExtras(const ColumnSource& from, size_t events, size_t fragments)
      : fragment(from.indices<int32_t>("extras.fragment", fragments)),
        rows(from.rows("extras.rows", events, fragment.size)) {}

  ColumnView<int32_t> fragment;
  Rows rows;
};

struct NodeTrace {
  NodeTrace(const ColumnSource& from, std::vector<std::string> its_schemas, std::vector<SchemaSize> its_sizes,
            std::vector<KernelText> its_kernels, std::vector<std::string> its_fragments)
      : events(from, std::min(its_schemas.size(), its_sizes.size()), its_kernels.size()),
        thread_numbers(from.any<int64_t>("threads.number")),
        tensors(from, events.size()),
        scalars(from, events.size()),
        extras(from, events.size(), its_fragments.size()),
        schemas(std::move(its_schemas)),
        schema_sizes(std::move(its_sizes)),
        kernels(std::move(its_kernels)),
        fragments(std::move(its_fragments)) {
    std::tie(name_offsets, name_bytes) = from.texts("names");
  }

  ColumnView<int64_t> name_offsets;
  ColumnView<uint8_t> name_bytes;
  NodeEvents events;
  ColumnView<int64_t> thread_numbers;  // torch's id of each row of threads
  ValueTensors tensors;
  ValueScalars scalars;
  ValueNames names;
  NodeExtras extras;
  std::vector<std::string> schemas;  // inside of a JSON string
  std::vector<SchemaSize> schema_sizes;
  std::vector<KernelText> kernels;
  std::vector<std::string> fragments;
  int64_t base_ns = 0;  // time 0 of "ts"
  bool has_times = true;
};

struct Node {
  size_t row;  // in events
  uint64_t id;
  uint64_t parent;
  uint64_t forward_parent;
  int64_t record_function_id;
  int64_t thread;  // torch's id of the thread that requested it
};

// Visits the events of a trace in order of start and finds the node of each. Not [MT].
class NodeWalk {
 public:
  // Continues the ids of the trace before. `trace` must stay valid until the next begin().
  void begin(const NodeTrace& trace);

  // The node of the next event; false if it has none. `new_thread`: id of the thread's node if it must be
  // written first, otherwise 0.
  bool next(size_t row, Node& node, uint64_t& new_thread);

  ObjectIds objects;
  uint64_t next_id = 2;  // 1 is the process

 private:
  uint64_t root_of(int64_t thread, uint64_t& new_thread);
  uint64_t open_on(int32_t torch_thread, int64_t time_ns, size_t row) const;
  uint64_t parent_of(size_t row, int64_t thread, uint64_t& new_thread);
  uint64_t forward_parent_of(size_t row, int64_t thread, uint64_t parent) const;

  const NodeTrace* trace_ = nullptr;
  std::vector<uint64_t> ids_;
  std::vector<int32_t> last_events_;                 // of each row of threads, the last one to start
  std::unordered_map<int64_t, size_t> thread_rows_;  // by torch's id
  std::unordered_map<int64_t, uint64_t> roots_;      // by torch's id
};

// Needs no Python. The columns of a trace must stay valid until its last row is written.
class ExecutionTraceWriter {
 public:
  void begin(NodeTrace trace);

  // Appends complete nodes, each with a leading comma, until `out` has at least `bytes` or the trace is
  // written. False: nothing was left to write.
  bool write(TextBuffer& out, size_t bytes);
  size_t rows_written() const { return next_; }  // of the current trace

 private:
  void write_node(TextBuffer& out, const Node& node);
  void write_times(TextBuffer& out, size_t row) const;
  SchemaSize size_of(size_t row) const;

  std::optional<NodeTrace> trace_;
  EscapedNames names_;
  NodeWalk walk_;
  std::unique_ptr<ValueWriter> values_;
  uint64_t segment_ = 0;
  size_t next_ = 0;
};

}  // namespace opscope::writers
