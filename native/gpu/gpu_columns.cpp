#include "gpu/gpu_columns.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "decode/window_clock.h"

namespace opscope {

namespace {

using gpu::Call;
using gpu::Work;

constexpr int32_t kNotSeen = -1;
constexpr int32_t kOutside = -2;  // launched by a call outside the window

std::string demangled(const std::string& name) {
  if (name.rfind("_Z", 0) != 0) return name;
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return result;
}

const char* memory_name(uint8_t kind) {
  static const char* const names[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                      "Array",   "Managed",  "Device Static", "Managed Static"};
  return kind < std::size(names) ? names[kind] : names[0];
}

const char* copy_name(uint8_t kind) {
  static const char* const names[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                      "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  return kind < std::size(names) ? names[kind] : names[0];
}

const char* sync_name(uint8_t kind) {
  static const char* const names[] = {"Unknown Synchronization", "Event Sync", "Stream Wait Event",
                                      "Stream Sync", "Context Sync"};
  return kind < std::size(names) ? names[kind] : names[0];
}

class Decoder {
 public:
  Decoder(const DeviceView& devices, const WindowFacts& window, const WindowClock& host)
      : devices_(devices), log_(devices.log), window_(window), device_(devices.clock), host_(host) {}

  DeviceColumns run() {
    out_.source = devices_.source;
    std::lock_guard lock(log_.mutex());
    out_.counts = log_.counts;
    decode_calls();
    decode_work();
    decode_nodes();
    decode_memory();
    decode_overheads();
    // The log may have other windows' records too.
    out_.counts.recorded = out_.runtime_calls.start_ns.size() + out_.gpu.start_ns.size() +
                           out_.gpu_memory.time_ns.size() + out_.gpu_overheads.start_ns.size();
    return std::move(out_);
  }

 private:
  uint64_t ticks(uint64_t device_ns) const { return device_.ticks(device_ns); }
  int64_t unix_ns(uint64_t ticks) const { return host_.unix_ns(ticks); }
  int64_t span_ns(uint64_t from, uint64_t to) const {
    return std::max<int64_t>(unix_ns(ticks(to)) - unix_ns(ticks(from)), 0);
  }

  // Ignores the window's pauses, which concern the CPU; the source itself pauses devices.
  bool in_window(uint64_t moment) const {
    return moment >= window_.started.ticks && moment < window_.stopped.ticks;
  }

  void decode_calls();
  bool is_shown(const Call& call);
  void decode_work();
  void add_work(const Work& work, int32_t call);
  int32_t call_of(const Work& work) const;
  int32_t name_of(const Work& work);
  // The file may end before the name.
  std::string kernel_name(uint32_t id) const {
    return id < log_.kernel_names.size() ? demangled(log_.kernel_names[id]) : "unnamed kernel";
  }
  const gpu::EventRecord* recorded_by(const Work& work) const;
  void decode_nodes();
  void decode_memory();
  void decode_overheads();
  void find_event_records();

  const DeviceView& devices_;
  gpu::GpuLog& log_;
  const WindowFacts& window_;
  const gpu::DeviceClock device_;
  const WindowClock& host_;
  DeviceColumns out_;
  std::unordered_map<uint32_t, int32_t> call_by_correlation_;
  std::unordered_set<uint32_t> with_work_;  // correlation ids; filled when a driver call needs them
  std::unordered_map<uint32_t, int32_t> kernel_names_;
  std::unordered_map<uint32_t, std::vector<gpu::EventRecord>> records_of_event_;  // by correlation
};

// Shows all runtime calls, and driver calls that started work or are notable.
bool Decoder::is_shown(const Call& call) {
  if (call.is_notable) return true;
  if (with_work_.empty()) {
    for (size_t row = 0; row < log_.work.size(); ++row) with_work_.insert(log_.work[row].correlation);
  }
  return with_work_.count(call.correlation) != 0;
}

// A driver call inside a runtime call has the same correlation id. The program made the outer, earlier one.
void Decoder::decode_calls() {
  std::vector<std::pair<uint64_t, const Call*>> inside;
  for (size_t row = 0; row < log_.calls.size(); ++row) {
    const Call& call = log_.calls[row];
    const uint64_t start = ticks(call.start);
    const bool seen =
        in_window(start) && (window_.only_thread == 0 || window_.only_thread == int64_t{call.thread});
    if (seen) {
      if (is_shown(call)) inside.emplace_back(start, &call);
    } else {
      call_by_correlation_.try_emplace(call.correlation, kOutside);
    }
  }
  std::stable_sort(inside.begin(), inside.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->end > b.second->end;
  });
  std::unordered_map<uint64_t, int32_t> names;
  RuntimeCallColumns& out = out_.runtime_calls;
  for (const auto& [start, call] : inside) {
    const auto row = static_cast<int32_t>(out.start_ns.size());
    const auto [entry, is_new] = call_by_correlation_.try_emplace(call->correlation, row);
    if (!is_new && entry->second == kOutside) entry->second = row;
    const uint64_t function = (uint64_t{call->api} << 32) | call->function;
    const auto [name, unseen] = names.try_emplace(function, 0);
    if (unseen) name->second = out_.names.add(devices_.call_name(call->api, call->function));
    out.name.push_back(name->second);
    out.function.push_back(static_cast<int32_t>(call->function));
    out.result.push_back(static_cast<int32_t>(call->result));
    out.start_ns.push_back(unix_ns(start));
    out.duration_ns.push_back(span_ns(call->start, call->end));
    out.system_thread_id.push_back(call->thread);
    out.correlation_id.push_back(call->correlation);
    out.api.push_back(call->api);
  }
}

int32_t Decoder::call_of(const Work& work) const {
  const auto found = call_by_correlation_.find(work.correlation);
  return found == call_by_correlation_.end() ? kNotSeen : found->second;
}

// Work belongs to the window of its launch; without a known launch, to the window in which it began. So
// consecutive windows share nothing.
void Decoder::decode_work() {
  find_event_records();
  std::vector<std::pair<uint64_t, size_t>> rows;
  for (size_t row = 0; row < log_.work.size(); ++row) {
    const Work& work = log_.work[row];
    if (work.start == 0 || work.end == 0) continue;
    const int32_t call = call_of(work);
    const uint64_t start = ticks(work.start);
    const bool inside = in_window(start);
    if (call == kOutside) out_.launched_outside += inside;
    if (call == kNotSeen) out_.begun_later += start >= window_.stopped.ticks;
    if (call == kOutside || (call == kNotSeen && !inside)) continue;
    out_.without_launch += call == kNotSeen;
    rows.emplace_back(start, row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [start, row] : rows) add_work(log_.work[row], call_of(log_.work[row]));
}

void Decoder::add_work(const Work& work, int32_t call) {
  GpuColumns& out = out_.gpu;
  uint32_t device = work.device;
  if (device == gpu::kUnknownDevice) {
    const auto known = log_.device_of_context.find(work.context);
    device = known == log_.device_of_context.end() ? 0 : known->second;
  }
  out.kind.push_back(static_cast<uint8_t>(work.kind));
  out.name.push_back(name_of(work));
  out.start_ns.push_back(unix_ns(ticks(work.start)));
  out.duration_ns.push_back(span_ns(work.start, work.end));
  out.device_type.push_back(devices_.device_type);
  out.device_index.push_back(static_cast<int8_t>(device));
  out.context.push_back(static_cast<int32_t>(work.context));
  out.stream.push_back(static_cast<int32_t>(work.stream));
  out.correlation_id.push_back(work.correlation);
  out.call.push_back(call);
  out.size_bytes.push_back(work.bytes);
  out.registers_per_thread.push_back(work.registers);
  out.shared_memory_bytes.push_back(work.shared_memory);
  out.queued_ns.push_back(work.queued == 0 ? 0 : unix_ns(ticks(work.queued)));
  out.submitted_ns.push_back(work.submitted == 0 ? 0 : unix_ns(ticks(work.submitted)));
  out.graph.push_back(work.graph);
  out.graph_node.push_back(static_cast<int64_t>(work.graph_node));
  out.copy_kind.push_back(work.copy_kind);
  out.source_memory.push_back(work.source_memory);
  out.destination_memory.push_back(work.destination_memory);
  out.peer_device.push_back(work.peer_device);
  out.target_device.push_back(work.target_device);
  out.sync_kind.push_back(work.sync_kind);
  const gpu::EventRecord* recorded = recorded_by(work);
  out.wait_on_cuda_event_record_corr_id.push_back(recorded == nullptr ? -1 : int64_t{recorded->correlation});
  out.wait_on_stream.push_back(recorded == nullptr ? -1 : static_cast<int32_t>(recorded->stream));
  if (work.kind == GpuKind::kKernel) {
    out.grid.values.insert(out.grid.values.end(), std::begin(work.grid), std::end(work.grid));
    out.block.values.insert(out.block.values.end(), std::begin(work.block), std::end(work.block));
  }
  out.grid.end_row();
  out.block.end_row();
}

// Names copies and sets like torch's profiler, because tools search for these texts.
int32_t Decoder::name_of(const Work& work) {
  switch (work.kind) {
    case GpuKind::kKernel: {
      const auto [entry, is_new] = kernel_names_.try_emplace(work.name, 0);
      if (is_new) entry->second = out_.names.add(kernel_name(work.name));
      return entry->second;
    }
    case GpuKind::kCopy:
      return out_.names.add(std::string("Memcpy ") + copy_name(work.copy_kind) + " (" +
                            memory_name(work.source_memory) + " -> " + memory_name(work.destination_memory) +
                            ")");
    case GpuKind::kSet:
      return out_.names.add(std::string("Memset (") + memory_name(work.destination_memory) + ")");
    case GpuKind::kSynchronisation:
    case GpuKind::kAnnotation:  // no work; created later
      break;
  }
  return out_.names.add(sync_name(work.sync_kind));
}

void Decoder::find_event_records() {
  for (size_t row = 0; row < log_.events.size(); ++row) {
    records_of_event_[log_.events[row].event].push_back(log_.events[row]);
  }
  for (auto& [event, records] : records_of_event_) {
    std::sort(records.begin(), records.end(),
              [](const auto& a, const auto& b) { return a.correlation < b.correlation; });
  }
}

// An event can be recorded many times; a wait refers to the last recording before it.
const gpu::EventRecord* Decoder::recorded_by(const Work& work) const {
  const bool waits = work.kind == GpuKind::kSynchronisation && work.sync_kind <= gpu::kStreamWaitsForEvent;
  const auto found = waits ? records_of_event_.find(work.event) : records_of_event_.end();
  if (found == records_of_event_.end()) return nullptr;
  const auto& records = found->second;
  const auto after =
      std::lower_bound(records.begin(), records.end(), work.correlation,
                       [](const gpu::EventRecord& record, uint32_t id) { return record.correlation < id; });
  return after == records.begin() ? nullptr : &*(after - 1);
}

// Replaces the node of the instantiated graph by the captured node.
void Decoder::decode_nodes() {
  std::unordered_map<int64_t, int64_t> captured_of;
  std::unordered_set<uint64_t> listed;
  for (int64_t& node : out_.gpu.graph_node) {
    if (node == 0) continue;
    const auto [entry, is_new] = captured_of.try_emplace(node, node);
    if (is_new) {
      uint64_t captured = 0;
      gpu::GraphNode capture;
      if (devices_.nodes.find_capture(static_cast<uint64_t>(node), captured, capture)) {
        entry->second = static_cast<int64_t>(captured);
        if (listed.insert(captured).second) {
          const bool inside = in_window(capture.ticks);
          out_.gpu_graph_nodes.node.push_back(entry->second);
          out_.gpu_graph_nodes.time_ns.push_back(inside ? unix_ns(capture.ticks) : 0);
          out_.gpu_graph_nodes.system_thread_id.push_back(capture.thread);
        }
      }
    }
    node = entry->second;
  }
  for (const auto& [node, capture] : devices_.nodes.captures()) {
    if (!in_window(capture.ticks) || !listed.insert(node).second) continue;
    out_.gpu_graph_nodes.node.push_back(static_cast<int64_t>(node));
    out_.gpu_graph_nodes.time_ns.push_back(unix_ns(capture.ticks));
    out_.gpu_graph_nodes.system_thread_id.push_back(capture.thread);
  }
}

void Decoder::decode_memory() {
  GpuMemoryColumns& out = out_.gpu_memory;
  for (size_t row = 0; row < log_.memory.size(); ++row) {
    const gpu::MemoryOperation& operation = log_.memory[row];
    if (operation.time == 0 || !in_window(ticks(operation.time))) continue;
    out.time_ns.push_back(unix_ns(ticks(operation.time)));
    out.action.push_back(operation.action);
    out.device_index.push_back(static_cast<int8_t>(operation.device));
    out.memory.push_back(static_cast<uint8_t>(operation.memory_kind));
    out.address.push_back(operation.address);
    out.size_bytes.push_back(operation.bytes);
    out.correlation_id.push_back(operation.correlation);
    out.is_pool.push_back(operation.is_pool);
  }
}

void Decoder::decode_overheads() {
  GpuOverheadColumns& out = out_.gpu_overheads;
  for (size_t row = 0; row < log_.overheads.size(); ++row) {
    const gpu::Overhead& overhead = log_.overheads[row];
    if (overhead.start == 0 || !in_window(ticks(overhead.start))) continue;
    out.kind.push_back(static_cast<int32_t>(overhead.kind));
    out.start_ns.push_back(unix_ns(ticks(overhead.start)));
    out.duration_ns.push_back(span_ns(overhead.start, overhead.end));
    out.system_thread_id.push_back(overhead.thread);
  }
}

}  // namespace

DeviceColumns decode_devices(const DeviceView& devices, const WindowFacts& window, const WindowClock& host) {
  return Decoder(devices, window, host).run();
}

DeviceColumns decode_gpu(GpuActivity& activity, const Window& window) {
  const auto name = [&](RuntimeApi api, uint32_t function) { return activity.call_name(api, function); };
  const DeviceView devices{activity.log(),   activity.nodes(),       activity.clock(),
                           activity.state(), activity.device_type(), name};
  const WindowClock host(Recorder::instance().origin(), window.started, window.stopped, recent_ns_per_tick());
  return decode_devices(devices, window, host);
}

std::optional<DeviceColumns> decode_noted(const StreamedLog& log) {
  gpu::NotedDevices noted;
  const std::string journal = log.devices();
  try {
    for_each_entry(journal, [&noted](const EntryHead& head, std::string_view fields) {
      if (head.kind == EntryKind::kDevices)
        noted.add(static_cast<gpu::NoteKind>(head.id), take_field(fields));
    });
  } catch (const Damage&) {
    // Pages of the file never reached the disk. Notes read before them are complete.
  }
  if (!noted.has_source) return std::nullopt;
  const WindowFacts& window = log.view().window;
  const auto name = [&](RuntimeApi api, uint32_t function) { return noted.call_name(api, function); };
  const DeviceView devices{noted.log, noted.nodes, noted.clock, noted.source, noted.device_type, name};
  const WindowClock host(log.view().origin, window.started, window.stopped, log.view().recent_rate);
  DeviceColumns columns = decode_devices(devices, window, host);
  columns.end_without_data_ns =
      std::max<int64_t>(host.unix_ns(window.stopped.ticks) - host.unix_ns(noted.delivered), 0);
  return columns;
}

}  // namespace opscope
