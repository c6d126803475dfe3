// Rows of a Chrome trace in Kineto's format, from the columns of a trace.
//
// The caller provides other parts (header, rows that name threads, trailing rows) as finished JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "numpy/column_source.h"
#include "schema/codes.h"
#include "writers/chrome_arguments.h"
#include "writers/json_escape.h"
#include "writers/text_buffer.h"

namespace opscope::writers {

// Columns of columns/schema.py; `order`, `track` and `rows` come from the caller.
struct ChromeEvents : TableColumns {
  ChromeEvents(const ColumnSource& from, size_t tracks)
      : TableColumns(from, "events", from.any<int64_t>("events.start_ns").size),
        order(from.indices<int32_t>("events.order", size())),
        track(indices<int32_t>("track", tracks)) {}

  ColumnView<int32_t> order;  // rows in output order
  ColumnView<int32_t> track;  // in ChromeTrace::tracks
  ColumnView<int32_t> name = column("name");
  ColumnView<int32_t> overload = column("overload");
  ColumnView<int32_t> parent = indices<int32_t>("parent", size(), -1);  // precedes its child
  ColumnView<uint8_t> kind = column("kind");
  ColumnView<int64_t> start_ns = column("start_ns");
  ColumnView<int64_t> duration_ns = column("duration_ns");
  ColumnView<int64_t> sequence_number = column("sequence_number");
  ColumnView<int32_t> forward_thread = column("forward_thread");
  ColumnView<int64_t> record_function_id = optional("record_function_id");  // -1 or missing: row + 1
  ColumnView<bool> unfinished = column("unfinished");
  ColumnView<int64_t> correlation_id =
      optional("correlation_id");  // of runtime calls, as in runtime_calls; if missing, from arrows
  ColumnView<int32_t> function = optional("function");  // of runtime calls
  ColumnView<int32_t> category = optional("category");  // replaces the kind's category, in names; optional
};

// Further pairs of an event: finished JSON in ChromeTrace::fragments.
struct ChromeExtras {
  ChromeExtras(const ColumnSource& from, size_t events, size_t fragments)
      : fragment(from.indices<int32_t>("extras.fragment", fragments)),
        rows(from.rows("extras.rows", events, fragment.size)) {}

  ColumnView<int32_t> fragment;
  Rows rows;
};

// Ends of arrows at each event.
struct ChromeFlows : TableColumns {
  ChromeFlows(const ColumnSource& from, size_t events)
      : TableColumns(from, "flows", from.any<int64_t>("flows.id").size),
        rows(from.rows("flows.rows", events, size())) {}

  Rows rows;
  ColumnView<int64_t> id = column("id");
  ColumnView<uint8_t> end = column("end");  // FlowEnd
};

struct ChromeAllocations : TableColumns {
  ChromeAllocations(const ColumnSource& from, size_t tracks)
      : TableColumns(from, "allocations", from.any<int64_t>("allocations.time_ns").size),
        track(indices<int32_t>("track", tracks)) {}

  ColumnView<int32_t> track;
  ColumnView<uint8_t> action = column("action");
  ColumnView<int64_t> time_ns = column("time_ns");
  ColumnView<uint64_t> address = column("address");
  ColumnView<int64_t> size_bytes = column("size_bytes");
  ColumnView<int64_t> total_allocated_bytes = column("total_allocated_bytes");
  ColumnView<int64_t> total_reserved_bytes = column("total_reserved_bytes");
  ColumnView<int8_t> device_type = column("device_type");
  ColumnView<int8_t> device_index = column("device_index");
};

struct ChromeGpu : TableColumns {
  ChromeGpu(const ColumnSource& from, size_t tracks, size_t events)
      : TableColumns(from, "gpu", from.any<int64_t>("gpu.start_ns").size),
        track(indices<int32_t>("track", tracks)),
        launch(indices<int32_t>("launch", events, -1)),
        collective(from.indices<int32_t>("gpu.collective", events, -1)) {}

  ColumnView<int32_t> track;
  ColumnView<uint8_t> kind = column("kind");
  ColumnView<int32_t> name = column("name");
  ColumnView<int64_t> start_ns = column("start_ns");
  ColumnView<int64_t> duration_ns = column("duration_ns");
  ColumnView<int8_t> device_index = column("device_index");
  ColumnView<int32_t> context = column("context");
  ColumnView<int32_t> stream = column("stream");
  ColumnView<int64_t> correlation_id = column("correlation_id");
  ColumnView<int32_t> launch;
  ColumnView<int64_t> size_bytes = column("size_bytes");
  ListView grid = column("grid");
  ListView block = column("block");
  ColumnView<int32_t> registers_per_thread = column("registers_per_thread");
  ColumnView<int32_t> shared_memory_bytes = column("shared_memory_bytes");
  ColumnView<int64_t> queued_ns = column("queued_ns");
  ColumnView<int64_t> graph = column("graph");
  ColumnView<int64_t> graph_node = column("graph_node");
  ColumnView<int8_t> peer_device = column("peer_device");
  ColumnView<int8_t> target_device = column("target_device");
  ColumnView<int64_t> wait_on_cuda_event_record_corr_id = column("wait_on_cuda_event_record_corr_id");
  ColumnView<int32_t> wait_on_stream = column("wait_on_stream");
  // Of kernels on known devices; otherwise missing. Numbers per SM are in thousandths.
  ColumnView<int64_t> blocks_per_sm = optional("blocks_per_sm");
  ColumnView<int64_t> warps_per_sm = optional("warps_per_sm");
  ColumnView<int64_t> occupancy_percent = optional("occupancy_percent");
  ColumnView<int32_t> category = optional("category");  // as in ChromeEvents
  ColumnView<int32_t> collective;  // event whose further pairs the row repeats, -1 for none; optional
};

struct ChromeTrace {
  ChromeTrace(const ColumnSource& from, std::vector<std::string> its_tracks,
              std::vector<std::string> its_fragments)
      : events(from, its_tracks.size()),
        tensors(from, events.size()),
        scalars(from, events.size()),
        extras(from, events.size(), its_fragments.size()),
        flows(from, events.size()),
        allocations(from, its_tracks.size()),
        gpu(from, its_tracks.size(), events.size()),
        tracks(std::move(its_tracks)),
        fragments(std::move(its_fragments)) {
    std::tie(name_offsets, name_bytes) = from.texts("names");
  }

  ColumnView<int64_t> name_offsets;
  ColumnView<uint8_t> name_bytes;
  ChromeEvents events;
  ChromeTensors tensors;
  ChromeScalars scalars;
  ChromeExtras extras;
  ChromeFlows flows;
  ChromeAllocations allocations;
  ChromeGpu gpu;
  int64_t base_ns = 0;                   // time 0 of the file; nothing begins before it
  std::vector<std::string> tracks;       // `"pid":1,"tid":2`
  std::vector<std::string> fragments;    // `"key":value`
  std::vector<std::string> dtype_names;  // by c10::ScalarType
  std::string header;                    // up to and including the rows before the events
  std::string footer;                    // the rows after them, and the end of the file
};

// Not [MT]: one thread at a time. Needs no Python. The columns must outlive it.
class ChromeWriter {
 public:
  explicit ChromeWriter(ChromeTrace trace)
      : trace_(std::move(trace)), arguments_(trace_.tensors, trace_.scalars, trace_.dtype_names, names_) {}
  ChromeWriter(const ChromeWriter&) = delete;
  ChromeWriter& operator=(const ChromeWriter&) = delete;

  // Appends complete rows until `out` has at least `bytes` or the file is complete. False: nothing was left.
  bool write(TextBuffer& out, size_t bytes);
  size_t rows_written() const { return written_; }

 private:
  enum class Part { kHeader, kEvents, kAllocations, kGpu, kFooter, kDone };

  size_t rows_of_part() const;
  void write_row(TextBuffer& out);

  void write_event(TextBuffer& out, size_t row);
  void write_category(TextBuffer& out, size_t row) const;
  void write_span(TextBuffer& out, int32_t track, int64_t start_ns, int64_t duration_ns) const;
  void write_operator_args(TextBuffer& out, size_t row);
  void write_python_args(TextBuffer& out, size_t row) const;
  void write_runtime_args(TextBuffer& out, size_t row) const;
  int64_t record_function_id(size_t row) const;
  int64_t external_id(size_t row) const;
  void write_extras(TextBuffer& out, size_t row) const;
  void write_flows(TextBuffer& out, size_t row) const;
  void write_flow(TextBuffer& out, FlowEnd end, int64_t id, int32_t track, int64_t time_ns) const;
  void write_allocation(TextBuffer& out, size_t row) const;
  void write_gpu(TextBuffer& out, size_t row) const;
  void write_gpu_args(TextBuffer& out, size_t row) const;
  void write_kernel_args(TextBuffer& out, size_t row) const;
  void write_bytes(TextBuffer& out, size_t row) const;
  void write_sync_args(TextBuffer& out, size_t row) const;
  void write_track(TextBuffer& out, int32_t track) const;

  ChromeTrace trace_;
  EscapedNames names_;
  ArgumentWriter arguments_;
  Part part_ = Part::kHeader;
  size_t next_ = 0;  // row of the current part
  size_t written_ = 0;
};

}  // namespace opscope::writers
