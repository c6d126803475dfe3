#include "roctracer/roctracer_source.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <string_view>

#include "log/clock.h"
#include "schema/codes.h"

namespace opscope::roctracer {

namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Calls that come by the thousand and tell nothing. Their numbers differ between releases.
constexpr std::string_view kNoisyCalls[] = {
    "hipGetDevice",
    "hipSetDevice",
    "hipGetLastError",
    "hipPeekAtLastError",
    "hipCtxGetCurrent",
    "hipCtxSetCurrent",
    "__hipPushCallConfiguration",
    "__hipPopCallConfiguration",
};

// How copies are called, and the codes that the log has for them: the copy, the memory it reads, the one
// that it writes.
struct CopyName {
  std::string_view name;
  uint8_t copy, source, destination;
};
constexpr uint8_t kUnknown = 0, kDevice = 3;  // roctracer does not say whether pages of the host are pinned
constexpr CopyName kCopies[] = {
    {"CopyHostToDevice", 1, kUnknown, kDevice},
    {"CopyDeviceToHost", 2, kDevice, kUnknown},
    {"CopyDeviceToDevice", 8, kDevice, kDevice},
};
constexpr std::string_view kFill = "FillBuffer";

}  // namespace

gpu::DeviceSource* make_roctracer_source(gpu::GpuLog& log, gpu::GraphNodes& /*nodes*/) {
  return new RoctracerSource(log);
}

// torch's builds for ROCm call their devices CUDA.
int8_t RoctracerSource::device_type() const { return DeviceType::kCuda; }

std::string RoctracerSource::load(const std::vector<std::string>& candidates) {
  return load_library(candidates, library_);
}

std::string RoctracerSource::refused(const char* what) const {
  const char* text = library_.error_string();
  return std::string(what) + ": " + (text != nullptr ? text : "unknown error");
}

std::string RoctracerSource::start(bool /*with_events*/, bool /*may_share*/) {
  if (pool_ == nullptr) {
    const Properties properties{0, kBufferBytes, nullptr, nullptr, &RoctracerSource::show_buffer, this};
    if (library_.open_pool(&properties, &pool_) != kSuccess) {
      pool_ = nullptr;
      return refused("no buffers could be made");
    }
  }
  if (!has_clock_) started_ = read_clocks();
  has_clock_ = true;
  for (const uint32_t domain : {kHipOperations, kHipCalls}) {
    if (library_.enable(domain, pool_) == kSuccess) continue;
    const std::string reason = refused(domain == kHipCalls ? "calls of HIP" : "work of devices");
    collects_ = true;
    stop();
    return reason;
  }
  collects_ = true;
  return {};
}

void RoctracerSource::pause() {
  if (!collects_) return;
  for (const uint32_t domain : {kHipOperations, kHipCalls}) library_.disable(domain);
  collects_ = false;
}

void RoctracerSource::stop() {
  if (pool_ == nullptr) return;
  pause();
  collect();
  ended_ = read_clocks();
  library_.close_pool(pool_);
  pool_ = nullptr;
}

void RoctracerSource::collect() {
  if (pool_ != nullptr) library_.flush(pool_);
}

gpu::DeviceClock::Point RoctracerSource::read_clocks() const {
  return gpu::DeviceClock::read(library_.get_timestamp);
}

// Over a short time the uncertainty of both readings would make a poor rate: the host's is better.
gpu::DeviceClock RoctracerSource::clock() {
  if (!has_clock_) return {};
  const gpu::DeviceClock::Point now = pool_ != nullptr ? read_clocks() : ended_;
  constexpr uint64_t kLongNs = 100'000'000;
  if (now.device_ns - started_.device_ns >= kLongNs) return {started_, now};
  const auto ticks = static_cast<uint64_t>(static_cast<double>(kLongNs) / recent_ns_per_tick());
  return {started_, {started_.device_ns + kLongNs, started_.ticks + ticks, 0}};
}

gpu::SourceState RoctracerSource::state() {
  gpu::SourceState result{"roctracer", library_.path, library_.version, false, 0, 0, {"captures of graphs"}};
  if (has_clock_) {
    const uint64_t last = pool_ != nullptr ? read_clocks().gap_ticks : ended_.gap_ticks;
    const auto gap = static_cast<double>(std::max(started_.gap_ticks, last));
    result.clock_error_ns = gap * recent_ns_per_tick() / 2;
  }
  return result;
}

void RoctracerSource::show_buffer(const char* begin, const char* end, void* source) {
  auto& self = *static_cast<RoctracerSource*>(source);
  self.parse(reinterpret_cast<const Record*>(begin), reinterpret_cast<const Record*>(end));
}

void RoctracerSource::parse(const Record* record, const Record* end) {
  std::lock_guard lock(log_.mutex());
  while (record < end) {
    try {
      if (log_.accept()) add(*record);
    } catch (const std::bad_alloc&) {
      ++log_.counts.dropped;
    }
    if (library_.next_record(record, &record) != kSuccess) return;
  }
}

void RoctracerSource::add(const Record& record) {
  if (record.domain == kHipCalls) return add_call(record);
  if (record.domain == kHipOperations && record.operation == kCopy) return add_copy(record);
  if (record.domain != kHipOperations || record.operation != kDispatch) {
    --log_.counts.recorded;
    ++log_.counts.unknown;
    return;
  }
  gpu::Work& row = log_.add_work(GpuKind::kKernel, record.begin_ns, record.end_ns);
  if (record.begin_ns == 0 || record.end_ns == 0) ++log_.counts.unfinished;
  row.correlation = static_cast<uint32_t>(record.correlation);
  row.device = static_cast<uint32_t>(record.device);
  row.stream = static_cast<uint32_t>(record.queue);
  row.name = log_.kernel_name(record.kernel_name);
}

void RoctracerSource::add_copy(const Record& record) {
  const char* text = library_.name_of(record.domain, record.operation, record.kind);
  const std::string_view name = text != nullptr ? text : "";
  const GpuKind kind = name == kFill ? GpuKind::kSet : GpuKind::kCopy;
  gpu::Work& row = log_.add_work(kind, record.begin_ns, record.end_ns);
  if (record.begin_ns == 0 || record.end_ns == 0) ++log_.counts.unfinished;
  row.correlation = static_cast<uint32_t>(record.correlation);
  row.device = static_cast<uint32_t>(record.device);
  row.stream = static_cast<uint32_t>(record.queue);
  row.bytes = static_cast<int64_t>(record.bytes);
  if (kind == GpuKind::kSet) row.destination_memory = kDevice;
  for (const CopyName& copy : kCopies) {
    if (copy.name != name) continue;
    row.copy_kind = copy.copy;
    row.source_memory = copy.source;
    row.destination_memory = copy.destination;
  }
}

void RoctracerSource::add_call(const Record& record) {
  if (is_noise(record.operation)) {
    --log_.counts.recorded;
    ++log_.counts.noise;
    return;
  }
  if (record.begin_ns == 0 || record.end_ns == 0) {
    ++log_.counts.unfinished;
    return;
  }
  log_.calls.append() = {record.begin_ns,      record.end_ns,
                         record.thread,        static_cast<uint32_t>(record.correlation),
                         record.operation,     0,
                         RuntimeApi::kRuntime, true};
}

bool RoctracerSource::is_noise(uint32_t function) {
  const auto [entry, is_new] = noise_.try_emplace(function, false);
  if (is_new) {
    const char* name = library_.name_of(kHipCalls, function, 0);
    entry->second = name != nullptr && std::ranges::find(kNoisyCalls, name) != std::end(kNoisyCalls);
  }
  return entry->second;
}

std::string RoctracerSource::call_name(RuntimeApi /*api*/, uint32_t function) const {
  const char* name = library_.name_of(kHipCalls, function, 0);
  return name != nullptr ? name : "HIP call " + std::to_string(function);
}

}  // namespace opscope::roctracer
