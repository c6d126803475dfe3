#include "gpu/gpu_activity.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <system_error>
#include <utility>

#include "gpu/cupti_layout.h"
#include "log/core_api.h"
#include "log/recorder.h"

namespace opscope {

namespace {

constexpr size_t kBufferBytes = 4u << 20;
constexpr size_t kBufferAlignment = 64;
constexpr size_t kFirstBuffers = 4;  // made before collecting starts, so that no launch waits for them
constexpr size_t kKeptBuffers = 16;  // for the next recording; those of a burst are given back
constexpr size_t kDefaultLogBytes = size_t{1} << 30;
constexpr size_t kMaxNodes = size_t{4} << 20;

struct KindName {
  uint32_t kind;
  const char* name;
};

// Without these there is nothing to show.
constexpr KindName kNeeded[] = {
    {cupti::kConcurrentKernel, "kernels"},
    {cupti::kMemcpy, "copies"},
    {cupti::kMemset, "sets"},
    {cupti::kRuntime, "runtime calls"},
};
constexpr KindName kWelcome[] = {
    {cupti::kMemcpyPeer, "copies between devices"}, {cupti::kDriver, "driver calls"},
    {cupti::kSynchronization, "synchronisation"},   {cupti::kOverhead, "overhead"},
    {cupti::kMemory, "driver allocations"},         {cupti::kMemoryPool, "memory pools"},
};

GpuActivity* current = nullptr;

uint8_t* new_buffer() {
  void* buffer = nullptr;
  return posix_memalign(&buffer, kBufferAlignment, kBufferBytes) == 0 ? static_cast<uint8_t*>(buffer)
                                                                      : nullptr;
}

std::string explained(const cupti::Library& library, int result, const char* what) {
  switch (result) {
    case cupti::kMultipleSubscribers:
    case cupti::kMaxLimitReached:
      return "another profiler is using CUPTI in this process (torch.profiler, Nsight, DCGM)";
    case cupti::kInsufficientPrivileges:
    case cupti::kVirtualizedInsufficientPrivileges:
      return "this user may not profile the GPU; an administrator can allow it by loading the nvidia module "
             "with NVreg_RestrictProfilingToAdminUsers=0";
    case cupti::kHardwareBusy:
      return "another process is profiling the GPU";
    default:
      return std::string(what) + ": " + library.text_of(result);
  }
}

}  // namespace

GpuActivity& GpuActivity::instance() {
  static const bool made = [] {
    current = new GpuActivity;
    pthread_atfork(nullptr, nullptr, &GpuActivity::after_fork_in_child);
    return true;
  }();
  (void)made;
  return *current;
}

GpuActivity::GpuActivity() : log_(kDefaultLogBytes) {}

// CUDA does not survive a fork, and neither does the parser: the child begins anew. The old object
// stays, because its locks may be held by threads that the child does not have.
void GpuActivity::after_fork_in_child() {
  auto candidates = current->candidates_;
  current = new GpuActivity;
  current->candidates_ = std::move(candidates);
}

void GpuActivity::set_candidates(std::vector<std::string> paths) {
  std::lock_guard lock(mutex_);
  if (!loaded_) candidates_ = std::move(paths);
}

void GpuActivity::set_budget(size_t buffer_bytes, size_t log_bytes) {
  std::scoped_lock lock(buffers_mutex_, log_.mutex());
  max_buffers_ = std::max<size_t>(buffer_bytes / kBufferBytes, 1);
  log_.set_max_bytes(log_bytes);
}

std::string GpuActivity::configure(uint32_t wanted, bool may_share) {
  std::lock_guard lock(mutex_);
  wanted_ = wanted;
  may_share_ = may_share;
  if ((wanted & kWantGpu) == 0) paused_ = false;  // the next to want it begins anew
  return apply();
}

std::string GpuActivity::pause(bool paused) {
  std::lock_guard lock(mutex_);
  paused_ = paused && (wanted_ & kWantGpu) != 0;
  return apply();
}

std::string GpuActivity::apply() {
  const uint32_t wanted = wanted_ & (kWantGpu | kWantGpuSync);
  if ((wanted & kWantGpu) == 0) {
    release();
    return {};
  }
  if (paused_) {
    disable();
    return {};
  }
  return wanted == enabled_ ? std::string() : enable(wanted);
}

std::string GpuActivity::enable(uint32_t wanted) {
  if (!loaded_) {
    std::string error;
    if (!cupti::load_library(candidates_, library_, error)) return error;
    loaded_ = true;
  }
  if (std::string error = attach(); !error.empty()) return error;
  const auto turn_on = [&](const KindName& kind) {
    if (std::find(kinds_.begin(), kinds_.end(), kind.kind) != kinds_.end()) return int{cupti::kSuccess};
    const int result = library_.enable(kind.kind);
    if (result == cupti::kSuccess) kinds_.push_back(kind.kind);
    return result;
  };
  for (const KindName& kind : kNeeded) {
    if (const int result = turn_on(kind); result != cupti::kSuccess) {
      release();
      return explained(library_, result, kind.name);
    }
  }
  missing_kinds_.clear();
  for (const KindName& kind : kWelcome) {
    if (turn_on(kind) != cupti::kSuccess) missing_kinds_.emplace_back(kind.name);
  }
  if ((wanted & kWantGpuSync) != 0 && turn_on({cupti::kCudaEvent, ""}) != cupti::kSuccess) {
    missing_kinds_.emplace_back("CUDA events");
  }
  if (shares_ || library_.graph_node_id == nullptr) missing_kinds_.emplace_back("captures of graphs");
  leave_out_noise();
  enabled_ = wanted;
  return {};
}

std::string GpuActivity::attach() {
  if (attached_) return {};
  if (std::string error = subscribe(); !error.empty()) return error;
  attached_ = true;
  if (!start_parser()) {
    detach();
    return "no thread can be started to read what CUPTI reports";
  }
  if (library_.set_thread_id_type != nullptr) library_.set_thread_id_type(cupti::kSystemThreadId);
  if (!set_clock()) {
    detach();
    return "CUPTI took the recorder's clock before and refuses it now";
  }
  const int result = library_.register_callbacks(&GpuActivity::request_buffer, &GpuActivity::complete_buffer);
  if (result != cupti::kSuccess) {
    detach();
    return explained(library_, result, "registering buffers failed");
  }
  return {};
}

// Only captures of graphs need a subscription; it also tells whether another profiler is there. torch's own
// takes it at its first use and keeps it, in use or not.
std::string GpuActivity::subscribe() {
  const int result = library_.subscribe(&subscriber_, &GpuActivity::on_callback, this);
  const bool taken = result == cupti::kMultipleSubscribers || result == cupti::kMaxLimitReached;
  shares_ = taken && may_share_;
  if (result != cupti::kSuccess) {
    subscriber_ = nullptr;
    return shares_ ? std::string() : explained(library_, result, "subscribing failed");
  }
  if (library_.graph_node_id != nullptr) {
    for (const uint32_t id : {cupti::kGraphNodeCreated, cupti::kGraphNodeCloned}) {
      library_.enable_callback(1, subscriber_, cupti::kResource, id);
    }
  }
  return {};
}

// Every time, because whoever collected in between has set a clock of their own. The line stays the same,
// so that what earlier windows collected can still be decoded.
bool GpuActivity::set_clock() {
  if (our_clock_.is_set() && has_clock_ && !clock_is_ours_) return true;
  if (!our_clock_.is_set()) {
    const ClockAnchor from = Recorder::instance().origin();
    ClockAnchor to = read_anchor();
    while (to.monotonic_ns - from.monotonic_ns < 2'000'000) to = read_anchor();  // for a sound rate
    const auto elapsed_ns = static_cast<uint64_t>(to.monotonic_ns - from.monotonic_ns);
    const auto start_ns = static_cast<uint64_t>(from.unix_ns);
    our_clock_ = {{start_ns, from.ticks, 0}, {start_ns + elapsed_ns, to.ticks, 0}};
  }
  const bool taken = library_.register_timestamp_callback != nullptr &&
                     library_.register_timestamp_callback(&GpuActivity::timestamp) == cupti::kSuccess;
  if (has_clock_) return taken == clock_is_ours_;
  has_clock_ = true;
  clock_is_ours_ = taken;
  if (!clock_is_ours_) started_ = read_clocks();
  return true;
}

// Calls that come by the thousand and tell nothing, and cost a record each. Older releases report them
// all the same; the log leaves them out.
void GpuActivity::leave_out_noise() {
  if (library_.enable_runtime_api != nullptr) {
    for (const uint32_t function : cupti::kNoisyRuntimeCalls) library_.enable_runtime_api(function, 0);
  }
  if (library_.enable_driver_api != nullptr) {
    for (const uint32_t function : cupti::kNoisyDriverCalls) library_.enable_driver_api(function, 0);
  }
}

uint64_t GpuActivity::timestamp() { return current->our_clock_.device_ns(now_ticks()); }

gpu::DeviceClock::Point GpuActivity::read_clocks() const {
  gpu::DeviceClock::Point best{0, 0, UINT64_MAX};
  for (int attempt = 0; attempt < 32; ++attempt) {
    uint64_t device_ns = 0;
    const uint64_t before = now_ticks();
    library_.get_timestamp(&device_ns);
    const uint64_t gap = now_ticks() - before;
    if (gap < best.gap_ticks) best = {device_ns, before + gap / 2, gap};
  }
  return best;
}

gpu::DeviceClock GpuActivity::clock() {
  std::lock_guard lock(mutex_);
  if (clock_is_ours_ || !has_clock_) return our_clock_;
  const gpu::DeviceClock::Point now = attached_ ? read_clocks() : ended_;
  // Over a short time the uncertainty of both readings would make a poor rate: the host's is better.
  constexpr uint64_t kLongNs = 100'000'000;
  if (now.device_ns - started_.device_ns >= kLongNs) return {started_, now};
  const uint64_t ticks = our_clock_.ticks(kLongNs) - our_clock_.ticks(0);
  return {started_, {started_.device_ns + kLongNs, started_.ticks + ticks, 0}};
}

double GpuActivity::clock_error_ns() {
  std::lock_guard lock(mutex_);
  if (clock_is_ours_ || !has_clock_) return 0;
  const uint64_t last_gap = attached_ ? read_clocks().gap_ticks : ended_.gap_ticks;
  const uint64_t gap = std::max(started_.gap_ticks, last_gap);
  return static_cast<double>(our_clock_.device_ns(gap) - our_clock_.device_ns(0)) / 2;
}

void GpuActivity::disable() {
  for (const uint32_t kind : kinds_) library_.disable(kind);
  kinds_.clear();
  enabled_ = 0;
}

// Has every buffer handed back: the next to collect in this process brings its own.
void GpuActivity::release() {
  if (!attached_) return;
  disable();
  flush();
  if (has_clock_ && !clock_is_ours_) ended_ = read_clocks();
  detach();
}

void GpuActivity::detach() {
  if (subscriber_ != nullptr) library_.unsubscribe(subscriber_);
  subscriber_ = nullptr;
  attached_ = false;
  if (library_.set_thread_id_type != nullptr) library_.set_thread_id_type(cupti::kDefaultThreadId);
  const char* teardown = std::getenv("TEARDOWN_CUPTI");  // as for torch's own profiler
  if (teardown == nullptr || std::string(teardown) != "1" || shares_ || library_.finalize == nullptr) return;
  wait_until_parsed();
  library_.finalize();
}

// The first returns buffers whose records are complete. Work that is still running would keep the others
// back; forced, they come as well.
void GpuActivity::flush() {
  library_.flush_all(0);
  library_.flush_all(cupti::kFlushForced);
}

void GpuActivity::wait_until_parsed() {
  std::unique_lock buffers(buffers_mutex_);
  filled_or_idle_.wait(buffers, [&] { return filled_.empty() && !parsing_; });
}

void GpuActivity::collect() {
  std::lock_guard lock(mutex_);
  if (!loaded_) return;
  if (attached_) flush();
  wait_until_parsed();
  std::scoped_lock log(buffers_mutex_, log_.mutex());
  log_.counts.dropped += std::exchange(dropped_, 0);
}

void GpuActivity::forget() {
  std::lock_guard lock(mutex_);
  if (attached_) return;
  wait_until_parsed();  // what nobody decoded must not turn up in the next window
  std::scoped_lock log(buffers_mutex_, log_.mutex());
  log_.clear();
  dropped_ = 0;
  refused_buffers_ = 0;
  has_clock_ = false;
}

bool GpuActivity::start_parser() {
  std::lock_guard lock(buffers_mutex_);
  while (buffers_ < std::min(kFirstBuffers, max_buffers_)) {
    uint8_t* buffer = new_buffer();
    if (buffer == nullptr) break;
    std::fill_n(buffer, kBufferBytes, uint8_t{0});  // so that no launch takes the page faults
    ++buffers_;
    if (!keep_buffer(buffer)) break;
  }
  if (has_parser_) return true;
  try {
    std::thread([this] { parse_forever(); }).detach();
    has_parser_ = true;
  } catch (const std::system_error&) {  // a limit on processes, or no room for a stack
  }
  return has_parser_;
}

// What is in a buffer nobody knows before it is read: at least one record.
void GpuActivity::parse(const Filled& filled) noexcept {
  std::lock_guard log(log_.mutex());
  try {
    log_.parse(library_, filled.buffer, filled.valid);
  } catch (const std::bad_alloc&) {
    ++log_.counts.dropped;
  }
}

bool GpuActivity::keep_buffer(uint8_t* buffer) noexcept {
  try {
    free_.push_back(buffer);
    return true;
  } catch (const std::bad_alloc&) {
    std::free(buffer);
    --buffers_;
    return false;
  }
}

void GpuActivity::parse_forever() {
  pthread_setname_np(pthread_self(), "opscope-gpu");
  std::unique_lock lock(buffers_mutex_);
  for (;;) {
    filled_or_idle_.wait(lock, [&] { return !filled_.empty(); });
    const Filled filled = filled_.front();
    filled_.pop_front();
    parsing_ = true;
    lock.unlock();
    parse(filled);
    lock.lock();
    parsing_ = false;
    if (buffers_ > std::min(kKeptBuffers, max_buffers_)) {
      std::free(filled.buffer);
      --buffers_;
    } else {
      keep_buffer(filled.buffer);
    }
    if (filled_.empty()) filled_or_idle_.notify_all();
  }
}

uint8_t* GpuActivity::take_buffer() {
  std::lock_guard lock(buffers_mutex_);
  if (!free_.empty()) {
    uint8_t* buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  const bool may_refuse = library_.version >= cupti::kRefusableVersion;
  uint8_t* buffer = buffers_ < max_buffers_ || !may_refuse ? new_buffer() : nullptr;
  if (buffer != nullptr) {
    ++buffers_;
  } else {
    ++refused_buffers_;
  }
  return buffer;
}

void GpuActivity::request_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *buffer = current->take_buffer();
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

void GpuActivity::complete_buffer(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  GpuActivity& self = *current;
  size_t dropped = 0;
  self.library_.dropped_records(context, stream, &dropped);
  std::lock_guard lock(self.buffers_mutex_);
  self.dropped_ += dropped;
  if (buffer == nullptr) return;
  try {  // CUPTI is C
    self.filled_.push_back({buffer, valid});
  } catch (const std::bad_alloc&) {
    ++self.dropped_;
    self.keep_buffer(buffer);
  }
  self.filled_or_idle_.notify_all();
}

void GpuActivity::on_callback(void* user, int domain, uint32_t id, const void* data) {
  if (domain != cupti::kResource || data == nullptr) return;
  const auto* resource = static_cast<const cupti::ResourceData*>(data);
  const auto* graph = static_cast<const cupti::GraphData*>(resource->descriptor);
  if (graph == nullptr) return;
  auto& self = *static_cast<GpuActivity*>(user);
  if (id == cupti::kGraphNodeCreated) self.add_node(graph->node, nullptr);
  if (id == cupti::kGraphNodeCloned) self.add_node(graph->node, graph->original_node);
}

// Instantiating a graph reports each of its nodes as created, then as cloned from the captured one.
void GpuActivity::add_node(void* node, void* original) {
  uint64_t id = 0;
  uint64_t original_id = 0;
  if (library_.graph_node_id(node, &id) != cupti::kSuccess) return;
  if (original != nullptr && library_.graph_node_id(original, &original_id) != cupti::kSuccess) return;
  std::lock_guard lock(nodes_mutex_);
  if (nodes_.size() >= kMaxNodes) return;
  try {  // CUPTI is C; without its node, what a graph replays is linked to its launch alone
    nodes_[id] = {original_id, now_ticks(), static_cast<int64_t>(syscall(SYS_gettid))};
  } catch (const std::bad_alloc&) {
  }
}

bool GpuActivity::find_capture(uint64_t node, uint64_t& captured, GraphNode& capture) {
  std::lock_guard lock(nodes_mutex_);
  for (int hops = 0; hops < 16; ++hops) {  // a clone of a clone, of a clone ...
    const auto found = nodes_.find(node);
    if (found == nodes_.end()) return false;
    if (found->second.original == 0) {
      captured = node;
      capture = found->second;
      return true;
    }
    node = found->second.original;
  }
  return false;
}

std::vector<std::pair<uint64_t, GraphNode>> GpuActivity::captures() {
  std::lock_guard lock(nodes_mutex_);
  std::vector<std::pair<uint64_t, GraphNode>> result;
  for (const auto& [id, node] : nodes_) {
    if (node.original == 0) result.emplace_back(id, node);
  }
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return result;
}

uint64_t GpuActivity::refused_buffers() {
  std::lock_guard lock(buffers_mutex_);
  return refused_buffers_;
}

std::vector<std::string> GpuActivity::missing_kinds() {
  std::lock_guard lock(mutex_);
  return missing_kinds_;
}

std::string GpuActivity::call_name(uint8_t api, uint32_t function) const {
  const char* text = nullptr;
  const int domain = api == 0 ? cupti::kRuntimeApi : cupti::kDriverApi;
  if (library_.get_callback_name(domain, function, &text) != cupti::kSuccess || text == nullptr) {
    return (api == 0 ? "runtime call " : "driver call ") + std::to_string(function);
  }
  std::string name = text;
  // cudaLaunchKernel_v7000: the version of the interface, not part of the name.
  const size_t version = name.rfind("_v");
  if (version != std::string::npos && version + 2 < name.size() &&
      std::all_of(name.begin() + static_cast<std::ptrdiff_t>(version) + 2, name.end(),
                  [](char c) { return c >= '0' && c <= '9'; })) {
    name.resize(version);
  }
  return name;
}

}  // namespace opscope
