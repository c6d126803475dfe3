#include "cupti/cupti_source.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "cupti/cupti_layout.h"
#include "log/recorder.h"
#include "schema/codes.h"

namespace opscope::cupti {

namespace {

struct KindName {
  uint32_t kind;
  const char* name;
};

// Required kinds.
constexpr KindName kNeeded[] = {
    {kConcurrentKernel, "kernels"},
    {kMemcpy, "copies"},
    {kMemset, "sets"},
    {kRuntime, "runtime calls"},
};
constexpr KindName kWelcome[] = {
    {kMemcpyPeer, "copies between devices"}, {kDriver, "driver calls"},
    {kSynchronization, "synchronisation"},   {kOverhead, "overhead"},
    {kMemory, "driver allocations"},         {kMemoryPool, "memory pools"},
};

CuptiSource* current = nullptr;  // of this process, not of its parent

std::string explained(const Library& library, int result, const char* what) {
  switch (result) {
    case kMultipleSubscribers:
    case kMaxLimitReached:
      return "another profiler is using CUPTI in this process (torch.profiler, Nsight, DCGM)";
    case kInsufficientPrivileges:
    case kVirtualizedInsufficientPrivileges:
      return "this user may not profile the GPU; an administrator can allow it by loading the nvidia module "
             "with NVreg_RestrictProfilingToAdminUsers=0";
    case kHardwareBusy:
      return "another process is profiling the GPU";
    default:
      return std::string(what) + ": " + library.text_of(result);
  }
}

}  // namespace

gpu::DeviceSource* make_cupti_source(gpu::GpuLog& log, gpu::GraphNodes& nodes) {
  return new CuptiSource(log, nodes);
}

CuptiSource::CuptiSource(gpu::GpuLog& log, gpu::GraphNodes& nodes)
    : log_(log), nodes_(nodes), buffers_([this](uint8_t* buffer, size_t valid) { parse(buffer, valid); }) {
  current = this;
}

int8_t CuptiSource::device_type() const { return DeviceType::kCuda; }

std::string CuptiSource::load(const std::vector<std::string>& candidates) {
  std::string error;
  load_library(candidates, library_, error);
  return error;
}

std::string CuptiSource::start(bool with_events, bool may_share) {
  if (std::string error = attach(may_share); !error.empty()) return error;
  if (std::string error = turn_on_kinds(with_events); !error.empty()) {
    stop();
    return error;
  }
  disable_noisy_calls();
  return {};
}

std::string CuptiSource::turn_on_kinds(bool with_events) {
  for (const KindName& kind : kNeeded) {
    if (const int result = turn_on(kind.kind); result != kSuccess) {
      return explained(library_, result, kind.name);
    }
  }
  missing_kinds_.clear();
  for (const KindName& kind : kWelcome) {
    if (turn_on(kind.kind) != kSuccess) missing_kinds_.emplace_back(kind.name);
  }
  if (with_events && turn_on(kCudaEvent) != kSuccess) missing_kinds_.emplace_back("CUDA events");
  if (shares_ || library_.graph_node_id == nullptr) missing_kinds_.emplace_back("captures of graphs");
  return {};
}

int CuptiSource::turn_on(uint32_t kind) {
  if (std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end()) return kSuccess;
  const int result = library_.enable(kind);
  if (result == kSuccess) kinds_.push_back(kind);
  return result;
}

std::string CuptiSource::attach(bool may_share) {
  if (attached_) return {};
  if (std::string error = subscribe(may_share); !error.empty()) return error;
  attached_ = true;
  if (!buffers_.start()) {
    detach();
    return "no thread can be started to read what CUPTI reports";
  }
  if (library_.set_thread_id_type != nullptr) library_.set_thread_id_type(kSystemThreadId);
  set_zeroed_buffers(true);
  if (!set_clock()) {
    detach();
    return "CUPTI accepted the recorder's clock before, and refuses it now";
  }
  const int result = library_.register_callbacks(&CuptiSource::request_buffer, &CuptiSource::complete_buffer);
  if (result != kSuccess) {
    detach();
    return explained(library_, result, "registering buffers failed");
  }
  return {};
}

// Otherwise CUPTI writes the zeros itself: four megabytes in a launch. Other clients' buffers may not be
// zero.
void CuptiSource::set_zeroed_buffers(bool are_zero) {
  size_t bytes = sizeof(uint8_t);
  uint8_t value = are_zero ? 1 : 0;
  if (library_.set_attribute != nullptr) library_.set_attribute(kBuffersAreZero, &bytes, &value);
}

// Only captures of graphs need a subscription; it also detects another profiler. torch's own subscribes at
// its first use and never unsubscribes.
std::string CuptiSource::subscribe(bool may_share) {
  const int result = library_.subscribe(&subscriber_, &CuptiSource::on_callback, this);
  const bool taken = result == kMultipleSubscribers || result == kMaxLimitReached;
  shares_ = taken && may_share;
  if (result != kSuccess) {
    subscriber_ = nullptr;
    return shares_ ? std::string() : explained(library_, result, "subscribing failed");
  }
  if (library_.graph_node_id != nullptr) {
    for (const uint32_t id : {kGraphNodeCreated, kGraphNodeCloned}) {
      library_.enable_callback(1, subscriber_, kResource, id);
    }
  }
  return {};
}

// At each start, because another CUPTI client may have set its clock.
bool CuptiSource::set_clock() {
  if (our_clock_.is_set() && has_clock_ && !clock_is_ours_) return true;
  if (!our_clock_.is_set()) set_our_line();
  const bool taken = library_.register_timestamp_callback != nullptr &&
                     library_.register_timestamp_callback(&CuptiSource::timestamp) == kSuccess;
  if (has_clock_) return taken == clock_is_ours_;
  has_clock_ = true;
  clock_is_ours_ = taken;
  if (!clock_is_ours_) started_ = read_clocks();
  return true;
}

// Unix nanoseconds, like CUPTI's own clock: CUPTI continues to read this clock after detach().
void CuptiSource::set_our_line() {
  const ClockAnchor from = Recorder::instance().origin();
  ClockAnchor to = read_anchor();
  while (to.monotonic_ns - from.monotonic_ns < 2'000'000) to = read_anchor();  // for an exact rate
  const auto elapsed_ns = static_cast<uint64_t>(to.monotonic_ns - from.monotonic_ns);
  const auto start_ns = static_cast<uint64_t>(from.unix_ns);
  our_clock_ = {{start_ns, from.ticks, 0}, {start_ns + elapsed_ns, to.ticks, 0}};
}

// Leaves out frequent calls without information. Older releases report them anyway; the log drops them then.
void CuptiSource::disable_noisy_calls() {
  if (library_.enable_runtime_api != nullptr) {
    for (const uint32_t function : kNoisyRuntimeCalls) library_.enable_runtime_api(function, 0);
  }
  if (library_.enable_driver_api != nullptr) {
    for (const uint32_t function : kNoisyDriverCalls) library_.enable_driver_api(function, 0);
  }
}

uint64_t CuptiSource::timestamp() { return current->our_clock_.device_ns(now_ticks()); }

gpu::DeviceClock::Point CuptiSource::read_clocks() const {
  return gpu::DeviceClock::read(library_.get_timestamp);
}

gpu::DeviceClock CuptiSource::clock() {
  if (clock_is_ours_ || !has_clock_) return our_clock_;
  const gpu::DeviceClock::Point now = attached_ ? read_clocks() : ended_;
  // Over a short time the errors of both readings would make a poor rate; the host's is better.
  constexpr uint64_t kLongNs = 100'000'000;
  if (now.device_ns - started_.device_ns >= kLongNs) return {started_, now};
  const uint64_t ticks = our_clock_.ticks(kLongNs) - our_clock_.ticks(0);
  return {started_, {started_.device_ns + kLongNs, started_.ticks + ticks, 0}};
}

double CuptiSource::clock_error_ns() const {
  if (clock_is_ours_ || !has_clock_) return 0;
  const uint64_t last_gap = attached_ ? read_clocks().gap_ticks : ended_.gap_ticks;
  const uint64_t gap = std::max(started_.gap_ticks, last_gap);
  return static_cast<double>(our_clock_.device_ns(gap) - our_clock_.device_ns(0)) / 2;
}

gpu::SourceState CuptiSource::state() {
  return {"CUPTI",          library_.path,      library_.version, clock_is_ours_,
          clock_error_ns(), buffers_.refused(), missing_kinds_};
}

void CuptiSource::pause() {
  for (const uint32_t kind : kinds_) library_.disable(kind);
  kinds_.clear();
}

// Makes CUPTI return every buffer: the next client in this process brings its own.
void CuptiSource::stop() {
  if (!attached_) return;
  pause();
  flush();
  if (has_clock_ && !clock_is_ours_) ended_ = read_clocks();
  detach();
}

void CuptiSource::detach() {
  if (subscriber_ != nullptr) library_.unsubscribe(subscriber_);
  subscriber_ = nullptr;
  attached_ = false;
  if (library_.set_thread_id_type != nullptr) library_.set_thread_id_type(kDefaultThreadId);
  set_zeroed_buffers(false);
  const char* teardown = std::getenv("TEARDOWN_CUPTI");  // as for torch's own profiler
  if (teardown == nullptr || std::string(teardown) != "1" || shares_ || library_.finalize == nullptr) return;
  buffers_.wait_until_parsed();
  library_.finalize();
}

// The first call returns buffers with complete records, the forced one also buffers with running work.
void CuptiSource::flush() {
  library_.flush_all(0);
  library_.flush_all(kFlushForced);
}

void CuptiSource::collect() {
  if (attached_) flush();
  wait_until_parsed();
}

// Buffers with complete records; a buffer with running work follows once it is full.
void CuptiSource::deliver() {
  if (attached_) library_.flush_all(0);
  wait_until_parsed();
}

void CuptiSource::wait_until_parsed() {
  buffers_.wait_until_parsed();
  const uint64_t dropped = buffers_.take_dropped();
  std::lock_guard lock(log_.mutex());
  log_.counts.dropped += dropped;
}

void CuptiSource::forget() {
  buffers_.wait_until_parsed();  // undecoded activity must not appear in the next window
  buffers_.forget();
  has_clock_ = false;
}

// The number of records in an unread buffer is unknown: count at least one.
void CuptiSource::parse(uint8_t* buffer, size_t valid) noexcept {
  std::lock_guard lock(log_.mutex());
  try {
    parse_buffer(library_, buffer, valid, log_);
  } catch (const std::bad_alloc&) {
    ++log_.counts.dropped;
  }
}

// Before CUDA 12.9, CUPTI could crash without a buffer.
void CuptiSource::request_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  const bool must = current->library_.version < kRefusableVersion;
  *buffer = current->buffers_.take(must);
  *bytes = *buffer == nullptr ? 0 : gpu::RecordBuffers::kBytes;
  *max_records = 0;
}

void CuptiSource::complete_buffer(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  size_t dropped = 0;
  current->library_.dropped_records(context, stream, &dropped);
  current->buffers_.give_back(buffer, valid, dropped);
}

void CuptiSource::on_callback(void* user, int domain, uint32_t id, const void* data) {
  if (domain != kResource || data == nullptr) return;
  const auto* resource = static_cast<const ResourceData*>(data);
  const auto* graph = static_cast<const GraphData*>(resource->descriptor);
  if (graph == nullptr) return;
  auto& self = *static_cast<CuptiSource*>(user);
  if (id == kGraphNodeCreated) self.add_node(graph->node, nullptr);
  if (id == kGraphNodeCloned) self.add_node(graph->node, graph->original_node);
}

// Instantiating a graph reports each of its nodes as created, then as cloned from the captured one.
void CuptiSource::add_node(void* node, void* original) {
  uint64_t id = 0;
  uint64_t original_id = 0;
  if (library_.graph_node_id(node, &id) != kSuccess) return;
  if (original != nullptr && library_.graph_node_id(original, &original_id) != kSuccess) return;
  nodes_.add(id, original_id);
}

std::string CuptiSource::call_name(RuntimeApi api, uint32_t function) const {
  const char* text = nullptr;
  const int domain = api == RuntimeApi::kRuntime ? kRuntimeApi : kDriverApi;
  if (library_.get_callback_name(domain, function, &text) != kSuccess || text == nullptr) {
    return (api == RuntimeApi::kRuntime ? "runtime call " : "driver call ") + std::to_string(function);
  }
  std::string name = text;
  // cudaLaunchKernel_v7000: the suffix is the version of the interface.
  const size_t version = name.rfind("_v");
  if (version != std::string::npos && version + 2 < name.size() &&
      std::all_of(name.begin() + static_cast<std::ptrdiff_t>(version) + 2, name.end(),
                  [](char c) { return c >= '0' && c <= '9'; })) {
    name.resize(version);
  }
  return name;
}

}  // namespace opscope::cupti
