// The nodes of an execution trace, as torch's ExecutionTraceObserver writes them, from the columns
// of one or more traces of a process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "column.h"
#include "execution_trace_values.h"
#include "json_escape.h"
#include "text_buffer.h"

namespace opscope::writers {

// Columns of trace/schema.py, and what is made for the file.
struct NodeEvents {
  Column<int32_t> thread;
  Column<int32_t> parent;
  Column<int32_t> name;
  Column<int32_t> schema;  // row in NodeTrace::schemas, -1 none
  Column<int32_t> kernel;  // row in NodeTrace::kernels, -1 none
  Column<int32_t> forward_thread;
  Column<int32_t> launch_thread;
  Column<uint8_t> kind;
  Column<uint8_t> scope;
  Column<int64_t> start_ns;
  Column<int64_t> duration_ns;
  Column<int64_t> self_ns;
  Column<int64_t> sequence_number;
  Column<int64_t> record_function_id;
};

// Finished JSON texts of a generated kernel.
struct KernelText {
  std::string backend;
  std::string file;
  std::string stream;  // a further input; empty if none
};

// Further attributes of an event: finished JSON in NodeTrace::fragments.
struct NodeExtras {
  Rows rows;
  Column<int32_t> fragment;
};

struct NodeTrace {
  Column<int64_t> name_offsets;
  Column<uint8_t> name_bytes;
  NodeEvents events;
  Column<int64_t> thread_numbers;  // of each row of threads: torch's id
  ValueTensors tensors;
  ValueScalars scalars;
  ValueNames names;
  NodeExtras extras;
  std::vector<std::string> schemas;  // inside of a JSON string
  std::vector<KernelText> kernels;
  std::vector<std::string> fragments;
  int64_t base_ns = 0;  // time 0 of "ts"
  bool has_times = true;
};

// Not [MT]: one thread at a time. Needs no Python. What a trace's columns point to must live until
// its last row is written.
class ExecutionTraceWriter {
 public:
  // The rows to write from here on. Ids go on from those of the trace before.
  void begin(NodeTrace trace);

  // Appends whole nodes, each with a leading comma, until `out` holds at least `bytes` or the trace
  // is written. False: there was nothing left to write.
  bool write(TextBuffer& out, size_t bytes);

 private:
  struct Thread {
    int32_t last_event = -1;  // the latest to start
  };

  void write_event(TextBuffer& out, size_t row);
  void write_thread(TextBuffer& out, int64_t thread, uint64_t id) const;
  void write_times(TextBuffer& out, size_t row) const;
  uint64_t root_of(TextBuffer& out, int64_t thread);
  uint64_t open_on(int32_t torch_thread, int64_t time_ns, size_t row) const;
  uint64_t parent_of(TextBuffer& out, size_t row, int64_t thread);
  uint64_t forward_parent_of(size_t row, int64_t thread, uint64_t parent) const;

  NodeTrace trace_;
  EscapedNames names_;
  std::unique_ptr<ValueWriter> values_;
  ObjectIds objects_;
  uint64_t next_id_ = 2;  // 1 is the process
  uint64_t segment_ = 0;
  size_t next_ = 0;
  std::vector<uint64_t> ids_;  // of each event so far: its own, or its parent's if it is no node
  std::vector<Thread> threads_;
  std::unordered_map<int64_t, size_t> thread_rows_;  // by torch's id
  std::unordered_map<int64_t, uint64_t> roots_;      // likewise
};

}  // namespace opscope::writers
