#include "parsers/event_collector.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "parsers/json_scanner.h"
#include "schema/codes.h"

namespace opscope::readers {
namespace {

constexpr std::string_view kMemory = "[memory]";
constexpr std::string_view kOutOfMemory = "[OutOfMemory]";
constexpr int64_t kUnknownDevice = -2;  // -1 is the writers' value for none

bool is_text(const Value& value, std::string_view text, std::string& scratch) {
  return value.is_text() && text_of(value, scratch) == text;
}

// Whether the event has a stream and a device.
bool is_on_device(const FoundEvent& event) {
  return event.argument("stream").sort == Sort::kInteger && event.argument("device").sort == Sort::kInteger;
}

bool is_launch_arrow(std::string_view category) {
  return category == "ac2g" || category == "async_cpu_to_gpu" || category == "async_gpu";
}

}  // namespace

EventCollector::EventCollector(const Vocabulary& vocabulary, MeaningOf meaning)
    : arguments(texts, vocabulary.dtypes, vocabulary.known_keys),
      vocabulary_(vocabulary),
      meaning_(std::move(meaning)) {}

void EventCollector::take(const FoundEvent& event) {
  ++seen;
  if (event.phase.is_text()) {
    const std::string_view phase = text_of(event.phase, scratch_);
    switch (phase.size() == 1 ? phase[0] : '\0') {
      case 'X':
        return complete(event);
      case 'B':
        return begin(event, false);
      case 'E':
        return end(event, open_on_thread(event));
      case 'b':
      case 'S':
        return begin(event, true);
      case 'e':
      case 'F':
        return end(event, open_of_id(event));
      case 'n':
      case 'T':
      case 'p':
        ++other_instants;
        return;
      case 'C':
        ++counters;
        return;
      case 'M':
        return describe(event);
      case 'i':
      case 'I':
      case 'R':
        return instant(event);
      case 's':
        return flow(event, false);
      case 'f':
        return flow(event, true);
      default:
        break;
    }
  }
  other_phases.add(printed(event.phase));
}

void EventCollector::complete(const FoundEvent& event) {
  const CategoryMeaning& category = meaning_of(event.category);
  const std::optional<int64_t> start = nanoseconds(event.time);
  if (!start) {
    ++without_time;
  } else if (category.gpu_kind >= 0 || (category.is_unknown && is_on_device(event))) {
    add_gpu(event, category, *start);
  } else if (category.is_mark) {
    ++marks;
  } else if (category.is_overhead && add_overhead(event, *start)) {
    return;
  } else if (is_text(event.name, kMemory, scratch_) || is_text(event.name, kOutOfMemory, scratch_)) {
    add_allocation(event, *start);
  } else {
    add_span(event, category, *start, duration_of(event));
  }
}

void EventCollector::add_span(const FoundEvent& event, const CategoryMeaning& category, int64_t start_ns,
                              int64_t duration_ns) {
  const auto row = static_cast<int32_t>(spans.thread.size());
  spans.thread.push_back(threads.row_of(event));
  const std::string_view name = printed(event.name);
  const bool is_driver = name.starts_with("cu") && !name.starts_with("cuda");
  spans.name.push_back(texts.row_of(name));
  spans.kind.push_back(category.span_kind);
  const bool is_kept = is_driver ? category.keeps_driver_category : category.keeps_other_category;
  spans.category.push_back(is_kept ? texts.row_of(categories_[category_]) : -1);
  spans.start_ns.push_back(start_ns);
  spans.duration_ns.push_back(duration_ns);
  spans.unfinished.push_back(0);
  spans.is_async.push_back(0);
  spans.sequence_number.push_back(number(event, "Sequence number", -1));
  spans.forward_thread.push_back(static_cast<int32_t>(number(event, "Fwd thread id", 0, kInt32)));
  spans.external_id.push_back(number(event, "External id", -1));
  spans.correlation_id.push_back(number(event, "correlation", -1));
  spans.python_id.push_back(number(event, "Python id", -1));
  spans.python_parent_id.push_back(number(event, "Python parent id", -1));
  const bool is_operator = category.span_kind == EventKind::kOperator;
  if (is_operator || category.span_kind == EventKind::kAnnotation) arguments.add(row, event);
  if (is_operator) arguments.add_keywords(row, event);
}

std::vector<int32_t>& EventCollector::open_on_thread(const FoundEvent& event) {
  const auto thread = static_cast<size_t>(threads.row_of(event));
  if (open_.size() <= thread) open_.resize(thread + 1);
  return open_[thread];
}

// Asynchronous spans of one category, id and scope nest in each other, on any threads.
std::vector<int32_t>& EventCollector::open_of_id(const FoundEvent& event) {
  async_key_.clear();
  for (const Value* const part : {&event.category, &event.id, &event.id2, &event.scope, &event.process}) {
    async_key_.append(part->raw);
    async_key_ += '\0';
  }
  const auto row = static_cast<size_t>(async_keys_.row_of(async_key_));
  if (async_open_.size() <= row) async_open_.resize(row + 1);
  return async_open_[row];
}

void EventCollector::begin(const FoundEvent& event, bool is_async) {
  const std::optional<int64_t> start = nanoseconds(event.time);
  if (!start) {
    ++without_time;
    return;
  }
  std::vector<int32_t>& open = is_async ? open_of_id(event) : open_on_thread(event);
  open.push_back(static_cast<int32_t>(spans.thread.size()));
  add_span(event, meaning_of(event.category), *start, 0);
  spans.unfinished.back() = 1;
  spans.is_async.back() = is_async;
}

// Ends the innermost open span with the event's name; without a match, the innermost span.
void EventCollector::end(const FoundEvent& event, std::vector<int32_t>& open) {
  const std::optional<int64_t> end = nanoseconds(event.time);
  if (!end || open.empty()) {
    ++ends_without_beginning;
    return;
  }
  auto ended = open.end() - 1;
  if (event.name.is_text() && open.size() > 1) {
    const int32_t name = texts.row_of(text_of(event.name, scratch_));
    const auto named = std::find_if(open.rbegin(), open.rend(), [&](int32_t span) {
      return spans.name[static_cast<size_t>(span)] == name;
    });
    if (named != open.rend()) ended = named.base() - 1;
  }
  const auto row = static_cast<size_t>(*ended);
  open.erase(ended);
  spans.unfinished[row] = 0;
  ends_before_beginning += *end < spans.start_ns[row];
  // Both are less than a quarter of the range of 64 bits.
  spans.duration_ns[row] = std::clamp<int64_t>(*end - spans.start_ns[row], 0, vocabulary_.longest_ns);
}

void EventCollector::instant(const FoundEvent& event) {
  const std::optional<int64_t> time = nanoseconds(event.time);
  const std::string_view name = event.name.is_text() ? text_of(event.name, scratch_) : std::string_view{};
  if (time && (name == kMemory || name == kOutOfMemory)) {
    add_allocation(event, *time);
  } else if (name == "Iteration Start: PyTorch Profiler" || name == "Record Window End") {
    ++marks;
  } else {
    ++other_instants;
  }
}

void EventCollector::add_allocation(const FoundEvent& event, int64_t time_ns) {
  int64_t size = number(event, "Bytes", kInt64.low, vocabulary_.bytes);
  if (size == kInt64.low) size = 0, ++without_size;
  uint8_t action = size < 0 ? AllocationAction::kFree : AllocationAction::kAllocate;
  if (is_text(event.name, kOutOfMemory, scratch_)) action = AllocationAction::kOutOfMemory;
  const std::optional<Wide> address = whole(event.argument("Addr"));
  const bool is_address = address && *address >= 0 && *address <= std::numeric_limits<uint64_t>::max();
  allocations.thread.push_back(threads.row_of(event));
  allocations.action.push_back(action);
  allocations.time_ns.push_back(time_ns);
  allocations.address.push_back(is_address ? static_cast<uint64_t>(*address) : 0);
  allocations.size_bytes.push_back(size);
  allocations.total_allocated_bytes.push_back(number(event, "Total Allocated", 0, vocabulary_.bytes));
  allocations.total_reserved_bytes.push_back(number(event, "Total Reserved", 0, vocabulary_.bytes));
  allocations.device_type.push_back(static_cast<int8_t>(number(event, "Device Type", 0, kInt8)));
  allocations.device_index.push_back(static_cast<int8_t>(number(event, "Device Id", -1, kInt8)));
}

void EventCollector::add_gpu(const FoundEvent& event, const CategoryMeaning& category, int64_t start_ns) {
  const auto number_or = [&](std::string_view key, const Value& other, int64_t otherwise, Bounds bounds) {
    const Value given = event.argument(key);
    return integer(given.sort == Sort::kMissing ? other : given, otherwise, bounds);
  };
  const int16_t kind = category.gpu_kind >= 0 ? category.gpu_kind : int16_t{GpuKind::kAnnotation};
  gpu.kind.push_back(static_cast<uint8_t>(kind));
  gpu.name.push_back(texts.row_of(printed(event.name)));
  gpu.category.push_back(category.keeps_gpu_category ? texts.row_of(categories_[category_]) : -1);
  gpu.device_type.push_back(static_cast<int8_t>(category.device_type));
  gpu.start_ns.push_back(start_ns);
  gpu.duration_ns.push_back(duration_of(event));
  gpu.device_index.push_back(static_cast<int8_t>(number_or("device", event.process, kUnknownDevice, kInt8)));
  gpu.context.push_back(static_cast<int32_t>(number(event, "context", 0, kInt32)));
  gpu.stream.push_back(static_cast<int32_t>(number_or("stream", event.thread, 0, kInt32)));
  gpu.correlation_id.push_back(number(event, "correlation", 0));
  gpu.size_bytes.push_back(number(event, "bytes", 0, vocabulary_.bytes));
  gpu.external_id.push_back(number(event, "External id", -1));
  gpu.process.push_back(threads.owner_of(event));
  const bool has_counters = category.has_counters && !event.members.empty();
  gpu.counters.push_back(has_counters ? texts.row_of(event.arguments.raw) : -1);
  gpu.registers_per_thread.push_back(static_cast<int32_t>(number(event, "registers per thread", 0, kInt32)));
  gpu.shared_memory_bytes.push_back(static_cast<int32_t>(number(event, "shared memory", 0, kInt32)));
  gpu.graph.push_back(number(event, "graph id", 0));
  gpu.graph_node.push_back(number(event, "graph node id", 0));
  gpu.peer_device.push_back(static_cast<int8_t>(number(event, "fromDevice", -1, kInt8)));
  gpu.target_device.push_back(static_cast<int8_t>(number(event, "toDevice", -1, kInt8)));
  gpu.wait_on_stream.push_back(static_cast<int32_t>(number(event, "wait_on_stream", -1, kInt32)));
  gpu.wait_on_cuda_event_record_corr_id.push_back(number(event, "wait_on_cuda_event_record_corr_id", -1));
  add_lengths(gpu.grid, event.argument("grid"));
  add_lengths(gpu.block, event.argument("block"));
}

// Adds a launch size; empty if it is missing.
void EventCollector::add_lengths(Lists& lists, const Value& list) {
  Elements elements(list);
  Value length;
  for (int axis = 0; axis < 3 && elements.next(length); ++axis)
    lists.values.push_back(integer(length, 0, {.low = 0}));
  lists.end_row();
}

// False: it has no known name.
bool EventCollector::add_overhead(const FoundEvent& event, int64_t start_ns) {
  if (!event.name.is_text()) return false;
  const std::string_view name = text_of(event.name, scratch_);
  const auto kind = vocabulary_.overheads.find(std::string(name));
  if (kind == vocabulary_.overheads.end()) return false;
  overheads.kind.push_back(kind->second);
  overheads.name.push_back(texts.row_of(name));
  overheads.start_ns.push_back(start_ns);
  overheads.duration_ns.push_back(duration_of(event));
  overheads.system_thread_id.push_back(integer(event.thread, -1));
  return true;
}

void EventCollector::flow(const FoundEvent& event, bool is_target) {
  const std::optional<int64_t> time = nanoseconds(event.time);
  const std::string_view category = printed(event.category);
  const bool is_between_ranks = category == "collective";
  if (is_launch_arrow(category)) {
    // Calls that launch nothing, such as synchronisations, have a start too.
    if (is_target) launch_arrows.push_back(integer(event.id, -1));
  } else if ((!is_between_ranks && category != "fwdbwd") || !time) {
    other_flows.add(category);
  } else {
    flows.id.push_back(integer(event.id, -1));
    flows.thread.push_back(threads.row_of(event));
    flows.time_ns.push_back(*time);
    flows.is_target.push_back(is_target);
    flows.is_between_ranks.push_back(is_between_ranks);
  }
}

void EventCollector::describe(const FoundEvent& event) {
  if (!event.name.is_text()) return;
  const std::string_view what = text_of(event.name, scratch_);
  const bool is_thread = what == "thread_name", is_labels = what == "process_labels";
  if (!is_thread && !is_labels && what != "process_name") return;
  const Value given = event.argument(is_labels ? "labels" : "name");
  if (!given.is_text() && given.sort != Sort::kDecimal) return;
  std::string name(printed(given));
  if (is_thread) {
    threads.name_thread(event, std::move(name), event.argument(vocabulary_.beside));
  } else if (is_labels) {
    threads.label_process(event, std::move(name));
  } else {
    threads.name_process(event, std::move(name));
  }
}

const CategoryMeaning& EventCollector::meaning_of(const Value& category) {
  category_ = categories_.row_of(printed(category));
  const auto row = static_cast<size_t>(category_);
  while (meanings_.size() <= row)
    meanings_.push_back(meaning_(categories_[static_cast<int32_t>(meanings_.size())]));
  return meanings_[row];
}

// A text, or the raw value.
std::string_view EventCollector::printed(const Value& value) {
  return value.sort == Sort::kEscaped ? text_of(value, scratch_) : value.raw;
}

int64_t EventCollector::duration_of(const FoundEvent& event) {
  const int64_t duration_ns = nanoseconds(event.duration).value_or(-1);
  without_duration += duration_ns < 0;
  return std::max<int64_t>(duration_ns, 0);
}

}  // namespace opscope::readers
