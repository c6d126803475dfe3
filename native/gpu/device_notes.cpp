#include "gpu/device_notes.h"

#include <algorithm>
#include <mutex>

#include "log/bytes.h"

namespace opscope::gpu {

namespace {

constexpr size_t kRowsAtOnce = 4096;

template <typename T>
bool has_flags(const T& /*row*/) {
  return true;
}
bool has_flags(const Call& call) { return is_flag(call.is_notable); }
bool has_flags(const MemoryOperation& operation) { return is_flag(operation.is_pool); }

template <typename T>
void read_table(ByteReader& in, Blocks<T>& rows) {
  uint64_t count = in.get_count(sizeof(T));
  while (count-- > 0) {
    T& row = rows.append();
    in.get(row);
    require(has_flags(row), "a flag is neither 0 nor 1");
  }
}

}  // namespace

std::vector<DeviceNote> DeviceNotes::next(uint32_t window, GpuLog& log, GraphNodes& nodes,
                                          DeviceSource& source, uint64_t delivered) {
  if (window != window_) *this = DeviceNotes();
  window_ = window;
  notes_.clear();
  Counts counts;
  {
    const std::lock_guard lock(log.mutex());
    note_names(log);
    note_rows(log, source);
    counts = log.counts;
  }
  if (notes_.empty()) note_nodes(nodes);
  if (!notes_.empty()) return std::move(notes_);
  const SourceState state = source.state();
  ByteWriter out;
  out.put(source.device_type());
  out.put(source.clock());
  out.put(counts);
  out.put(delivered);
  out.put_text(state.library_name);
  out.put_text(state.library_path);
  out.put(state.library_version);
  out.put(state.clock_is_ours);
  out.put(state.clock_error_ns);
  out.put(state.refused_buffers);
  out.put(uint64_t{state.missing_kinds.size()});
  for (const std::string& kind : state.missing_kinds) out.put_text(kind);
  notes_.push_back({NoteKind::kSource, std::move(out.bytes)});
  return std::move(notes_);
}

template <typename T>
void DeviceNotes::note_table(const Blocks<T>& rows, size_t& noted, NoteKind kind) {
  const size_t count = std::min(rows.size() - noted, kRowsAtOnce);
  if (count == 0) return;
  ByteWriter out;
  out.bytes.reserve(sizeof(uint64_t) + count * sizeof(T));
  out.put(uint64_t{count});
  for (size_t row = noted; row < noted + count; ++row) out.put(rows[row]);
  noted += count;
  notes_.push_back({kind, std::move(out.bytes)});
}

// Includes names of calls, which are in the library: a reader of the file may lack it.
void DeviceNotes::note_rows(GpuLog& log, const DeviceSource& source) {
  ByteWriter names;
  for (size_t row = calls_; row < std::min(log.calls.size(), calls_ + kRowsAtOnce); ++row) {
    const Call& call = log.calls[row];
    if (!named_calls_.emplace(call.api, call.function).second) continue;
    names.put(static_cast<uint32_t>(call.api));
    names.put(call.function);
    names.put_text(source.call_name(call.api, call.function));
  }
  if (!names.bytes.empty()) notes_.push_back({NoteKind::kCallNames, std::move(names.bytes)});
  note_table(log.calls, calls_, NoteKind::kCalls);
  note_table(log.work, work_, NoteKind::kWork);
  note_table(log.memory, memory_, NoteKind::kMemory);
  note_table(log.overheads, overheads_, NoteKind::kOverheads);
  note_table(log.events, events_, NoteKind::kEventRecords);
}

void DeviceNotes::note_names(GpuLog& log) {
  ByteWriter names;
  for (; kernel_names_ < log.kernel_names.size(); ++kernel_names_)
    names.put_text(log.kernel_names[kernel_names_]);
  if (!names.bytes.empty()) notes_.push_back({NoteKind::kKernelNames, std::move(names.bytes)});
  if (contexts_ == log.device_of_context.size()) return;
  contexts_ = log.device_of_context.size();
  ByteWriter contexts;
  for (const auto& [context, device] : log.device_of_context) {
    contexts.put(context);
    contexts.put(device);
  }
  notes_.push_back({NoteKind::kContexts, std::move(contexts.bytes)});
}

void DeviceNotes::note_nodes(GraphNodes& nodes) {
  ByteWriter out;
  for (const auto& [id, node] : nodes.added_after(nodes_until_)) {
    nodes_until_ = std::max(nodes_until_, node.ticks);
    out.put(id);
    out.put(node);
  }
  if (!out.bytes.empty()) notes_.push_back({NoteKind::kGraphNodes, std::move(out.bytes)});
}

void NotedDevices::add(NoteKind kind, std::string_view bytes) {
  ByteReader in(bytes);
  switch (kind) {
    case NoteKind::kWork:
      return read_table(in, log.work);
    case NoteKind::kCalls:
      return read_table(in, log.calls);
    case NoteKind::kMemory:
      return read_table(in, log.memory);
    case NoteKind::kOverheads:
      return read_table(in, log.overheads);
    case NoteKind::kEventRecords:
      return read_table(in, log.events);
    case NoteKind::kKernelNames:
      while (!in.is_empty()) log.kernel_names.push_back(in.get_text());
      return;
    case NoteKind::kCallNames:
      while (!in.is_empty()) {
        CallFunction function;
        in.get(function.first);
        in.get(function.second);
        call_names[function] = in.get_text();
      }
      return;
    case NoteKind::kContexts:
      while (!in.is_empty()) {
        uint32_t context = 0;
        in.get(context);
        in.get(log.device_of_context[context]);
      }
      return;
    case NoteKind::kGraphNodes:
      while (!in.is_empty()) {
        uint64_t id = 0;
        GraphNode node;
        in.get(id);
        in.get(node);
        nodes.restore(id, node);
      }
      return;
    case NoteKind::kSource:
      break;
  }
  in.get(device_type);
  in.get(clock);
  in.get(log.counts);
  in.get(delivered);
  source.library_name = in.get_text();
  source.library_path = in.get_text();
  in.get(source.library_version);
  in.get(source.clock_is_ours);
  in.get(source.clock_error_ns);
  in.get(source.refused_buffers);
  in.get_each(source.missing_kinds, [&in](std::string& missing) { missing = in.get_text(); });
  has_source = true;
}

std::string NotedDevices::call_name(RuntimeApi api, uint32_t function) const {
  const auto found = call_names.find({api, function});
  return found == call_names.end() ? "call " + std::to_string(function) : found->second;
}

}  // namespace opscope::gpu
