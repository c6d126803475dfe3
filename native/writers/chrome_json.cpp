#include "writers/chrome_json.h"

#include <array>
#include <charconv>
#include <iterator>
#include <string_view>

#include "writers/wrapping_times.h"

namespace opscope::writers {
namespace {

bool is_python(uint8_t kind) { return kind >= EventKind::kPythonCall && kind <= EventKind::kOptimizerCall; }

// cuLaunchKernel is a driver call, cudaLaunchKernel a runtime call.
bool is_driver_call(std::string_view name) { return name.starts_with("cu") && !name.starts_with("cuda"); }

}  // namespace

bool ChromeWriter::write(TextBuffer& out, size_t bytes) {
  if (part_ == Part::kDone) return false;
  if (part_ == Part::kHeader) {
    names_ = EscapedNames(trace_.name_offsets, trace_.name_bytes);
    out.put(trace_.header);
    part_ = Part::kEvents;
  }
  while (out.size() < bytes && part_ != Part::kFooter) {
    if (next_ < rows_of_part()) {
      write_row(out);
      ++next_;
      ++written_;
    } else {
      part_ = static_cast<Part>(static_cast<int>(part_) + 1);
      next_ = 0;
    }
  }
  if (part_ == Part::kFooter) {
    out.put(trace_.footer);
    part_ = Part::kDone;
  }
  return true;
}

size_t ChromeWriter::rows_of_part() const {
  switch (part_) {
    case Part::kEvents:
      return trace_.events.order.size;
    case Part::kAllocations:
      return trace_.allocations.time_ns.size;
    case Part::kGpu:
      return trace_.gpu.start_ns.size;
    default:
      return 0;
  }
}

void ChromeWriter::write_row(TextBuffer& out) {
  switch (part_) {
    case Part::kEvents:
      write_event(out, static_cast<size_t>(trace_.events.order[next_]));
      break;
    case Part::kAllocations:
      write_allocation(out, next_);
      break;
    case Part::kGpu:
      write_gpu(out, next_);
      break;
    default:
      break;
  }
}

void ChromeWriter::write_event(TextBuffer& out, size_t row) {
  const ChromeEvents& events = trace_.events;
  const uint8_t kind = events.kind[row];
  const bool is_known = kind < std::size(kEventCategories);
  out.put("{\"ph\":\"X\",\"cat\":\"");
  write_category(out, row);
  out.put("\",\"name\":\"", names_[events.name[row]]);
  const std::string_view overload = names_[events.overload[row]];
  if (!overload.empty()) {
    out.put('.', overload);
  }
  write_span(out, events.track[row], events.start_ns[row], events.duration_ns[row]);
  if (is_python(kind)) {
    write_python_args(out, row);
  } else if (kind == EventKind::kRuntimeCall) {
    write_runtime_args(out, row);
  } else if (kind <= EventKind::kAnnotation || !is_known) {
    write_operator_args(out, row);
  }
  if (events.unfinished[row]) out.put("\"finished\":false,");
  out.put("\"Ev Idx\":", row, "}},\n");
  write_flows(out, row);
}

void ChromeWriter::write_category(TextBuffer& out, size_t row) const {
  const ChromeEvents& events = trace_.events;
  const uint8_t kind = events.kind[row];
  if (row < events.category.size && events.category[row] >= 0) {
    out.put(names_[events.category[row]]);
  } else if (kind == EventKind::kOperator) {
    out.put("cpu_op");
  } else if (kind == EventKind::kAnnotation) {
    out.put("user_annotation");
  } else if (kind == EventKind::kRuntimeCall) {
    out.put(is_driver_call(names_[events.name[row]]) ? std::string_view("cuda_driver") : "cuda_runtime");
  } else if (kind <= EventKind::kGcPause) {
    out.put("python_function");
  } else {
    out.put(kind < std::size(kEventCategories) ? kEventCategories[kind] : std::string_view("unknown"));
  }
}

// From the end of the name to the first of the args.
void ChromeWriter::write_span(TextBuffer& out, int32_t track, int64_t start_ns, int64_t duration_ns) const {
  out.put("\",");
  write_track(out, track);
  out.put(",\"ts\":", Microseconds{difference_of(start_ns, trace_.base_ns)},
          ",\"dur\":", Microseconds{duration_ns}, ",\"args\":{");
}

void ChromeWriter::write_operator_args(TextBuffer& out, size_t row) {
  std::array<char, 20> digits;
  const int64_t number = record_function_id(row);
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  const std::string_view id(digits.data(), static_cast<size_t>(end - digits.data()));
  out.put("\"External id\":", id);
  const int64_t sequence_number = trace_.events.sequence_number[row];
  if (sequence_number >= 0) {
    out.put(",\"Sequence number\":", sequence_number,
            ",\"Fwd thread id\":", trace_.events.forward_thread[row]);
  }
  out.put(",\"Record function id\":", id);
  arguments_.write(out, row);
  out.put(',');
  write_extras(out, row);
}

void ChromeWriter::write_python_args(TextBuffer& out, size_t row) const {
  const ChromeEvents& events = trace_.events;
  // Finds the nearest Python call around this one; operators may lie between (__torch_dispatch__). Parents
  // precede children, which also ends the loop on a damaged table.
  int32_t parent = events.parent[row];
  auto child = static_cast<int64_t>(row);
  while (parent >= 0 && parent < child && !is_python(events.kind[static_cast<size_t>(parent)])) {
    child = parent;
    parent = events.parent[static_cast<size_t>(parent)];
  }
  out.put("\"Python parent id\":");
  if (parent >= 0 && parent < child) {
    out.number(parent + int64_t{1});
  } else {
    out.put("null");
  }
  out.put(",\"Python id\":", row + 1, ',');
  write_extras(out, row);
}

void ChromeWriter::write_runtime_args(TextBuffer& out, size_t row) const {
  out.put("\"External id\":", external_id(row));
  const auto flows = trace_.flows.rows[row];
  if (row < trace_.events.correlation_id.size && trace_.events.correlation_id[row] >= 0) {
    out.put(",\"cbid\":", trace_.events.function[row],
            ",\"correlation\":", trace_.events.correlation_id[row]);
  } else if (flows.begin < flows.end) {
    out.put(",\"correlation\":", trace_.flows.id[flows.begin]);
  }
  out.put(',');
}

// Id of the operator that made the launch; readers match launches by it.
int64_t ChromeWriter::external_id(size_t row) const {
  for (int depth = 0; depth < 2; ++depth) {  // a driver call may be inside a runtime call
    const int32_t parent = trace_.events.parent[row];
    if (trace_.events.kind[row] == EventKind::kRuntimeCall && parent >= 0) row = static_cast<size_t>(parent);
  }
  return record_function_id(row);
}

int64_t ChromeWriter::record_function_id(size_t row) const {
  const auto& given = trace_.events.record_function_id;
  return row < given.size && given[row] >= 0 ? given[row] : static_cast<int64_t>(row) + 1;
}

void ChromeWriter::write_extras(TextBuffer& out, size_t row) const {
  const auto extras = trace_.extras.rows[row];
  for (size_t i = extras.begin; i < extras.end; ++i) {
    out.put(trace_.fragments.at(static_cast<size_t>(trace_.extras.fragment[i])), ',');
  }
}

void ChromeWriter::write_flows(TextBuffer& out, size_t row) const {
  const auto flows = trace_.flows.rows[row];
  for (size_t i = flows.begin; i < flows.end; ++i) {
    write_flow(out, static_cast<FlowEnd>(trace_.flows.end[i]), trace_.flows.id[i], trace_.events.track[row],
               trace_.events.start_ns[row]);
  }
}

void ChromeWriter::write_flow(TextBuffer& out, FlowEnd end, int64_t id, int32_t track,
                              int64_t time_ns) const {
  const bool source = end == FlowEnd::kForward || end == FlowEnd::kLaunch || end == FlowEnd::kWaiting;
  const bool device = end == FlowEnd::kLaunch || end == FlowEnd::kDevice;
  const bool ranks = end == FlowEnd::kAwaited || end == FlowEnd::kWaiting;
  out.put(source ? "{\"ph\":\"s\",\"id\":" : "{\"ph\":\"f\",\"id\":", id, ',');
  write_track(out, track);
  out.put(",\"ts\":", Microseconds{difference_of(time_ns, trace_.base_ns)});
  const std::string_view category = device ? "ac2g" : ranks ? "collective" : "fwdbwd";
  out.put(",\"cat\":\"", category, "\",\"name\":\"", category, '"');
  if (!source) out.put(",\"bp\":\"e\"");
  out.put("},\n");
}

void ChromeWriter::write_allocation(TextBuffer& out, size_t row) const {
  const ChromeAllocations& allocations = trace_.allocations;
  const bool failed = allocations.action[row] == AllocationAction::kOutOfMemory;
  out.put("{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"",
          failed ? std::string_view("[OutOfMemory]") : std::string_view("[memory]"), "\",");
  write_track(out, allocations.track[row]);
  out.put(",\"ts\":", Microseconds{difference_of(allocations.time_ns[row], trace_.base_ns)},
          ",\"args\":{\"Total Reserved\":", allocations.total_reserved_bytes[row],
          ",\"Total Allocated\":", allocations.total_allocated_bytes[row],
          ",\"Bytes\":", allocations.size_bytes[row], ",\"Device Id\":", allocations.device_index[row],
          ",\"Device Type\":", allocations.device_type[row]);
  if (!failed) {
    out.put(",\"Addr\":", allocations.address[row]);
  }
  out.put(",\"finished\":false,\"Ev Idx\":", trace_.events.start_ns.size + row, "}},\n");
}

void ChromeWriter::write_gpu(TextBuffer& out, size_t row) const {
  const ChromeGpu& gpu = trace_.gpu;
  const uint8_t kind = gpu.kind[row];
  out.put("{\"ph\":\"X\",\"cat\":\"");
  const bool carries = row < gpu.category.size && gpu.category[row] >= 0;
  out.put(carries ? names_[gpu.category[row]]
                  : kGpuCategories[kind < std::size(kGpuCategories) ? kind : GpuKind::kKernel],
          "\",\"name\":\"", names_[gpu.name[row]]);
  write_span(out, gpu.track[row], gpu.start_ns[row], gpu.duration_ns[row]);
  write_gpu_args(out, row);
  out.put(",\"Ev Idx\":", trace_.events.start_ns.size + trace_.allocations.time_ns.size + row, "}},\n");
  if (gpu.launch[row] >= 0) {
    write_flow(out, FlowEnd::kDevice, gpu.correlation_id[row], gpu.track[row], gpu.start_ns[row]);
  }
}

void ChromeWriter::write_gpu_args(TextBuffer& out, size_t row) const {
  const ChromeGpu& gpu = trace_.gpu;
  const uint8_t kind = gpu.kind[row];
  if (gpu.launch[row] >= 0) {
    out.put("\"External id\":", external_id(static_cast<size_t>(gpu.launch[row])), ',');
  }
  if (row < gpu.collective.size && gpu.collective[row] >= 0) {
    write_extras(out, static_cast<size_t>(gpu.collective[row]));
  }
  out.put("\"device\":", gpu.device_index[row], ",\"context\":", gpu.context[row],
          ",\"stream\":", gpu.stream[row], ",\"correlation\":", gpu.correlation_id[row]);
  if (gpu.graph_node[row] != 0) {
    out.put(",\"graph id\":", gpu.graph[row], ",\"graph node id\":", gpu.graph_node[row]);
  }
  if (kind == GpuKind::kKernel) {
    write_kernel_args(out, row);
  } else if (kind == GpuKind::kCopy || kind == GpuKind::kSet) {
    write_bytes(out, row);
  } else if (kind == GpuKind::kSynchronisation) {
    write_sync_args(out, row);
  }
}

void ChromeWriter::write_kernel_args(TextBuffer& out, size_t row) const {
  const ChromeGpu& gpu = trace_.gpu;
  out.put(",\"grid\":");
  out.numbers(gpu.grid[row]);
  out.put(",\"block\":");
  out.numbers(gpu.block[row]);
  if (gpu.registers_per_thread[row] <= 0) return;  // every kernel has some: they were not recorded
  out.put(",\"queued\":");
  out.number(gpu.queued_ns[row]);
  out.put(",\"registers per thread\":");
  out.number(gpu.registers_per_thread[row]);
  out.put(",\"shared memory\":");
  out.number(gpu.shared_memory_bytes[row]);
  if (row >= gpu.blocks_per_sm.size) return;
  out.put(",\"blocks per SM\":", Microseconds{gpu.blocks_per_sm[row]},
          ",\"warps per SM\":", Microseconds{gpu.warps_per_sm[row]},
          ",\"est. achieved occupancy %\":", gpu.occupancy_percent[row]);
}

void ChromeWriter::write_bytes(TextBuffer& out, size_t row) const {
  const ChromeGpu& gpu = trace_.gpu;
  if (gpu.peer_device[row] >= 0) {
    out.put(",\"fromDevice\":", gpu.peer_device[row], ",\"inDevice\":", gpu.device_index[row],
            ",\"toDevice\":", gpu.target_device[row]);
  }
  out.put(",\"bytes\":", gpu.size_bytes[row]);
  if (gpu.duration_ns[row] <= 0) return;
  out.put(",\"memory bandwidth (GB/s)\":");  // bytes per nanosecond
  out.microseconds(static_cast<int64_t>(1000.0 * static_cast<double>(gpu.size_bytes[row]) /
                                        static_cast<double>(gpu.duration_ns[row])));
}

void ChromeWriter::write_sync_args(TextBuffer& out, size_t row) const {
  const ChromeGpu& gpu = trace_.gpu;
  out.put(",\"cuda_sync_kind\":\"", names_[gpu.name[row]], '"');
  if (gpu.wait_on_cuda_event_record_corr_id[row] < 0) return;
  out.put(",\"wait_on_stream\":", gpu.wait_on_stream[row],
          ",\"wait_on_cuda_event_record_corr_id\":", gpu.wait_on_cuda_event_record_corr_id[row]);
}

void ChromeWriter::write_track(TextBuffer& out, int32_t track) const {
  out.put(trace_.tracks.at(static_cast<size_t>(track)));
}

}  // namespace opscope::writers
