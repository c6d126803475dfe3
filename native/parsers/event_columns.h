// Rows of a Chrome file, in its order; steps that need the whole file run elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope::readers {

// Row i is values[offsets[i], offsets[i + 1]).
struct Lists {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> values;

  void end_row() { offsets.push_back(static_cast<int64_t>(values.size())); }
};

// Each struct has a function that names its columns as in Python.
struct SpanColumns {
  std::vector<int32_t> thread;
  std::vector<int32_t> name;
  std::vector<uint8_t> kind;
  std::vector<int32_t> category;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<uint8_t> unfinished;
  std::vector<uint8_t> is_async;  // begin and end have an id
  std::vector<int64_t> sequence_number;
  std::vector<int32_t> forward_thread;
  // Ids by which events of one file refer to each other.
  std::vector<int64_t> external_id;
  std::vector<int64_t> correlation_id;
  std::vector<int64_t> python_id;
  std::vector<int64_t> python_parent_id;

  template <class F>
  void each(F f) {
    f("thread", thread), f("name", name), f("kind", kind), f("category", category);
    f("start_ns", start_ns), f("duration_ns", duration_ns), f("unfinished", unfinished);
    f("is_async", is_async);
    f("sequence_number", sequence_number), f("forward_thread", forward_thread);
    f("external_id", external_id), f("correlation_id", correlation_id);
    f("python_id", python_id), f("python_parent_id", python_parent_id);
  }
};

struct AllocationColumns {
  std::vector<int32_t> thread;
  std::vector<uint8_t> action;
  std::vector<int64_t> time_ns;
  std::vector<uint64_t> address;
  std::vector<int64_t> size_bytes;
  std::vector<int64_t> total_allocated_bytes;
  std::vector<int64_t> total_reserved_bytes;
  std::vector<int8_t> device_type;
  std::vector<int8_t> device_index;

  template <class F>
  void each(F f) {
    f("thread", thread), f("action", action), f("time_ns", time_ns), f("address", address);
    f("size_bytes", size_bytes), f("total_allocated_bytes", total_allocated_bytes);
    f("total_reserved_bytes", total_reserved_bytes);
    f("device_type", device_type), f("device_index", device_index);
  }
};

struct GpuColumns {
  std::vector<uint8_t> kind;
  std::vector<int32_t> name;
  std::vector<int32_t> category;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<int8_t> device_type;
  std::vector<int8_t> device_index;
  std::vector<int32_t> context;
  std::vector<int32_t> stream;
  std::vector<int64_t> correlation_id;
  std::vector<int64_t> size_bytes;
  std::vector<int64_t> external_id;
  std::vector<int32_t> process;   // row of processes
  std::vector<int32_t> counters;  // row of a text: JSON of hardware counters; -1 for none
  std::vector<int32_t> registers_per_thread;
  std::vector<int32_t> shared_memory_bytes;
  std::vector<int64_t> graph;
  std::vector<int64_t> graph_node;
  std::vector<int8_t> peer_device;
  std::vector<int8_t> target_device;
  std::vector<int32_t> wait_on_stream;
  std::vector<int64_t> wait_on_cuda_event_record_corr_id;
  Lists grid;
  Lists block;

  template <class F>
  void each(F f) {
    f("kind", kind), f("name", name), f("category", category), f("start_ns", start_ns);
    f("duration_ns", duration_ns), f("device_type", device_type), f("device_index", device_index);
    f("context", context), f("stream", stream), f("correlation_id", correlation_id);
    f("size_bytes", size_bytes), f("external_id", external_id);
    f("process", process), f("counters", counters);
    f("registers_per_thread", registers_per_thread), f("shared_memory_bytes", shared_memory_bytes);
    f("graph", graph), f("graph_node", graph_node);
    f("peer_device", peer_device), f("target_device", target_device), f("wait_on_stream", wait_on_stream);
    f("wait_on_cuda_event_record_corr_id", wait_on_cuda_event_record_corr_id);
    f("grid", grid), f("block", block);
  }
};

struct OverheadColumns {
  std::vector<int32_t> kind;
  std::vector<int32_t> name;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<int64_t> system_thread_id;

  template <class F>
  void each(F f) {
    f("kind", kind), f("name", name), f("start_ns", start_ns), f("duration_ns", duration_ns);
    f("system_thread_id", system_thread_id);
  }
};

// Ends of arrows from forward to backward, and between ranks.
struct FlowColumns {
  std::vector<int64_t> id;
  std::vector<int32_t> thread;
  std::vector<int64_t> time_ns;
  std::vector<uint8_t> is_target, is_between_ranks;

  template <class F>
  void each(F f) {
    f("id", id), f("thread", thread), f("time_ns", time_ns), f("is_target", is_target),
        f("is_between_ranks", is_between_ranks);
  }
};

struct TensorColumns {
  std::vector<int32_t> event;  // row of SpanColumns
  std::vector<int16_t> argument;
  std::vector<int32_t> element;
  std::vector<int8_t> dtype;
  Lists sizes;
  Lists strides;

  template <class F>
  void each(F f) {
    f("event", event), f("argument", argument), f("element", element), f("dtype", dtype);
    f("sizes", sizes), f("strides", strides);
  }
};

struct ScalarColumns {
  std::vector<int32_t> event;
  std::vector<int16_t> argument;
  std::vector<uint8_t> role;
  std::vector<int32_t> keyword;
  std::vector<uint8_t> type;
  std::vector<int32_t> value;

  template <class F>
  void each(F f) {
    f("event", event), f("argument", argument), f("role", role), f("keyword", keyword);
    f("type", type), f("value", value);
  }
};

}  // namespace opscope::readers
