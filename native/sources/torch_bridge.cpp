// The only file that includes torch's headers. It is compiled on the user's machine against the
// torch that is installed there, loaded next to the core, and does two things: it registers
// callbacks with at::RecordFunction that append records, and it stands in the thread-local slot
// where torch looks for somebody to report memory to.
#include <ATen/SparseTensorImpl.h>
#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/profiler/stubs/base.h>
#include <torch/csrc/profiler/util.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <mutex>
#include <typeinfo>
#include <vector>

#include "core_api.h"
#include "payload.h"
#include "torch_ranges.h"

namespace opscope {
namespace {

using torch::profiler::impl::ActiveProfilerType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;
using torch::profiler::impl::ProfilerStateBase;

const CoreApi* core = nullptr;
at::CallbackHandle callback_handle = at::INVALID_CALLBACK_HANDLE;

thread_local ThreadLog* cached_log = nullptr;

ThreadLog* this_thread() {
  if (cached_log != nullptr) [[likely]]
    return cached_log;
  cached_log = core->this_thread();
  if (cached_log != nullptr) cached_log->torch_thread_id = at::RecordFunction::currentThreadId();
  return cached_log;
}

uint32_t wanted() { return core->wanted->load(std::memory_order_relaxed); }

// ---- Tensor identity -----------------------------------------------------------------------

// A tensor is told apart from others by the address of its TensorImpl, so while inputs and memory
// are recorded together that address must not be reused. A weak reference ensures it: it keeps the
// struct of some 200 bytes, never the tensor's data. The owning thread appends to its list and any
// thread may release what was published, but only between recordings.
//
// Only classes that let go of everything with the last strong reference are held. Others (nested,
// compressed sparse, quantized, functorch's wrappers) keep further tensors until they are destroyed.
class HeldTensors {
 public:
  // [owner]
  void hold(c10::TensorImpl* impl) {
    const uint64_t epoch = epoch_.load(std::memory_order_relaxed);
    if (cache_epoch_ != epoch) {
      cache_.fill(nullptr);
      cache_epoch_ = epoch;
    }
    const void*& slot = cache_[(reinterpret_cast<uintptr_t>(impl) >> 6) % cache_.size()];
    if (slot == impl) return;  // held since this recording began
    if (!is_empty_once_dead(*impl)) return;
    if (held_.fetch_add(1, std::memory_order_relaxed) >= most_held_.load(std::memory_order_relaxed)) {
      held_.fetch_sub(1, std::memory_order_relaxed);
      not_held_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    slot = impl;
    c10::raw::weak_intrusive_ptr::incref(impl);
    if (used_ == Block::kItems) add_block();
    tail_->items[used_++] = impl;
    published_.store(published_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  static HeldTensors& this_thread() {
    if (this_list_ == nullptr) {
      std::lock_guard lock(mutex());
      this_list_ = lists().emplace_back(new HeldTensors);
    }
    return *this_list_;
  }

  static void release_all() {
    std::lock_guard lock(mutex());
    epoch_.fetch_add(1);  // what threads believe to be held no longer is
    std::erase_if(lists(), [](HeldTensors* list) {
      list->release();
      if (!list->finished_) return false;
      delete list;
      return true;
    });
  }

  // [owner] Its thread ends: the list goes with the next release.
  static void forget_thread() {
    std::lock_guard lock(mutex());
    if (this_list_ != nullptr) this_list_->finished_ = true;
    this_list_ = nullptr;
  }

  static void set_budget(uint64_t bytes) { most_held_.store(bytes / sizeof(c10::TensorImpl)); }
  static uint64_t not_held() { return not_held_.load(std::memory_order_relaxed); }

 private:
  struct Block {
    static constexpr size_t kItems = 4096;
    c10::TensorImpl* items[kItems];
    std::atomic<Block*> next{nullptr};
  };

  HeldTensors() : tail_(new Block), head_(tail_) {}
  ~HeldTensors() { delete tail_; }  // everything else was released

  void add_block() {
    auto* block = new Block;
    tail_->next.store(block, std::memory_order_release);
    tail_ = block;
    used_ = 0;
  }

  void release() {
    const uint64_t published = published_.load(std::memory_order_acquire);
    for (; released_ < published; ++released_, ++head_used_) {
      if (head_used_ == Block::kItems) {
        Block* next = head_->next.load(std::memory_order_acquire);
        delete head_;
        head_ = next;
        head_used_ = 0;
      }
      c10::raw::weak_intrusive_ptr::decref(head_->items[head_used_]);
      held_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  static bool is_empty_once_dead(const c10::TensorImpl& impl) {
    const std::type_info& type = typeid(impl);
    return type == typeid(c10::TensorImpl) || type == typeid(at::SparseTensorImpl);
  }

  static std::mutex& mutex() {
    static auto* instance = new std::mutex;
    return *instance;
  }
  static std::vector<HeldTensors*>& lists() {
    static auto* instance = new std::vector<HeldTensors*>;
    return *instance;
  }

  static inline thread_local HeldTensors* this_list_ = nullptr;
  static inline std::atomic<uint64_t> epoch_{1};
  static inline std::atomic<uint64_t> held_{0};
  static inline std::atomic<uint64_t> not_held_{0};
  static inline std::atomic<uint64_t> most_held_{(512u << 20) / sizeof(c10::TensorImpl)};

  // The owner's side.
  std::array<const void*, 2048> cache_{};
  uint64_t cache_epoch_ = 0;
  size_t used_ = 0;  // in the tail block
  Block* tail_;
  std::atomic<uint64_t> published_{0};
  // The releasing side, under the mutex.
  Block* head_;
  size_t head_used_ = 0;
  uint64_t released_ = 0;
  bool finished_ = false;
};

// Set while both inputs and memory are wanted.
std::atomic<bool> holding{false};

// ---- Arguments -----------------------------------------------------------------------------

// A subclass written in Python may compute its sizes and device by running code, and that would run
// operators in the middle of recording one. What its TensorImpl itself says is asked instead.
struct PlainImpl : c10::TensorImpl {
  static bool has_sizes(const c10::TensorImpl& impl) {
    return !impl.is_python_dispatch() ||
           !(impl.*&PlainImpl::matches_python_custom)(SizesStridesPolicy::CustomStrides);
  }
  static c10::Device device(const c10::TensorImpl& impl) { return (impl.*&PlainImpl::device_default)(); }
  static c10::Layout layout(const c10::TensorImpl& impl) {
    if (!impl.is_python_dispatch()) [[likely]]
      return impl.layout();
    return impl.is_sparse() ? c10::kSparse : impl.is_mkldnn() ? c10::kMkldnn : c10::kStrided;
  }
};

bool put_tag(Arena& arena, Tag tag, uint64_t detail = 0);

// Symbolic and nested shapes have no plain numbers to copy, and asking for them (or for the device)
// may run Python.
bool put_unsized_tensor(Arena& arena, const c10::TensorImpl* impl) {
  constexpr size_t kWords = 1 + kTensorAddresses + 1;
  uint64_t* word = arena.reserve(kWords);
  if (word == nullptr) return false;
  const uint8_t flags = kNoSizes | kNoVersion | (impl->requires_grad() ? kRequiresGrad : 0);
  const auto dtype = static_cast<int8_t>(c10::typeMetaToScalarType(impl->dtype()));
  word[0] = make_tag(Tag::kTensor, pack({dtype, 0, 0, -1, 0, flags}));
  word[1] = reinterpret_cast<uintptr_t>(impl);
  word[2] = word[3] = word[4] = 0;
  arena.advance(kWords);
  return true;
}

// The numbers of one tensor, read once: their width decides how much room the tensor takes.
struct TensorNumbers {
  uint64_t offset;
  uint64_t version;
  c10::IntArrayRef sizes;
  c10::IntArrayRef strides;

  bool fit_32_bits() const {
    uint64_t bits = offset | version;
    for (const int64_t size : sizes) bits |= static_cast<uint64_t>(size);
    for (const int64_t stride : strides) bits |= static_cast<uint64_t>(stride);
    return bits <= UINT32_MAX;
  }

  template <typename Number>
  void write(uint64_t* words) const {
    write_number<Number>(words, 0, offset);
    write_number<Number>(words, 1, version);
    size_t at = 2;
    for (const int64_t size : sizes) write_number<Number>(words, at++, static_cast<uint64_t>(size));
    for (const int64_t stride : strides) write_number<Number>(words, at++, static_cast<uint64_t>(stride));
  }
};

// Copies one tensor's metadata.
bool put_tensor(Arena& arena, const at::Tensor& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!tensor.defined()) return put_tag(arena, Tag::kUndefined);
  if (holding.load(std::memory_order_relaxed)) HeldTensors::this_thread().hold(impl);
  if (impl->has_symbolic_sizes_strides() || tensor.is_nested() || !PlainImpl::has_sizes(*impl)) {
    return put_unsized_tensor(arena, impl);
  }
  const c10::Layout layout = PlainImpl::layout(*impl);
  const bool has_strides = layout == c10::kStrided;
  const bool has_version = impl->version_counter().enabled();
  c10::StorageImpl* storage = impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl() : nullptr;
  TensorNumbers numbers = {storage == nullptr ? 0 : static_cast<uint64_t>(impl->storage_offset()),
                           has_version ? impl->version_counter().current_version() : 0, impl->sizes(),
                           has_strides ? impl->strides() : c10::IntArrayRef()};
  if (numbers.sizes.size() > UINT8_MAX) [[unlikely]] {
    numbers.sizes = numbers.sizes.slice(0, UINT8_MAX);
    if (has_strides) numbers.strides = numbers.strides.slice(0, UINT8_MAX);
  }
  const bool wide = !numbers.fit_32_bits();
  const auto flags = static_cast<uint8_t>(
      (impl->requires_grad() ? kRequiresGrad : 0) | (impl->is_wrapped_number() ? kWrappedNumber : 0) |
      (has_strides ? kHasStrides : 0) | (has_version ? 0 : kNoVersion) | (wide ? kWide : 0));
  const size_t dim = numbers.sizes.size();
  const size_t count = 1 + kTensorAddresses + words_of_numbers(count_numbers(dim, flags), flags);
  uint64_t* word = arena.reserve(count);
  if (word == nullptr) return false;
  const c10::Device device = PlainImpl::device(*impl);
  word[0] = make_tag(Tag::kTensor, pack({static_cast<int8_t>(c10::typeMetaToScalarType(impl->dtype())),
                                         static_cast<uint8_t>(layout), static_cast<uint8_t>(device.type()),
                                         device.index(), static_cast<uint8_t>(dim), flags}));
  word[1] = reinterpret_cast<uintptr_t>(impl);
  word[2] = reinterpret_cast<uintptr_t>(storage);
  // Without the checks, because those throw for a storage that has no memory (a fake tensor's).
  word[3] =
      storage == nullptr ? 0 : reinterpret_cast<uintptr_t>(storage->_mutable_data_ptr_no_checks().get());
  if (wide) {
    numbers.write<uint64_t>(word + 1 + kTensorAddresses);
  } else {
    numbers.write<uint32_t>(word + 1 + kTensorAddresses);
  }
  arena.advance(count);
  return true;
}

bool put_words(Arena& arena, uint64_t tag, const void* bytes, size_t words, size_t byte_count) {
  uint64_t* word = arena.reserve(1 + words);
  if (word == nullptr) return false;
  word[0] = tag;
  if (words != 0) {
    word[words] = 0;  // the padding of the last word
    std::memcpy(word + 1, bytes, byte_count);
  }
  arena.advance(1 + words);
  return true;
}

bool put_text(Arena& arena, Tag tag, std::string_view text) {
  const size_t bytes = std::min(text.size(), kMaxStringBytes);
  return put_words(arena, make_tag(tag, bytes), text.data(), (bytes + 7) / 8, bytes);
}

bool put_tag(Arena& arena, Tag tag, uint64_t detail) {
  return put_words(arena, make_tag(tag, detail), nullptr, 0, 0);
}

uint64_t bits_of(const c10::IValue& element) {
  if (element.isDouble()) {
    const double number = element.toDouble();
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    return bits;
  }
  return element.isBool() ? element.toBool() : static_cast<uint64_t>(element.toInt());
}

using Values = c10::ArrayRef<c10::IValue>;

bool put_numbers(Arena& arena, Tag tag, Values list) {
  const size_t kept = std::min(list.size(), kMaxListElements);
  uint64_t* word = arena.reserve(1 + kept);
  if (word == nullptr) return false;
  word[0] = make_tag(tag, kept | static_cast<uint64_t>(list.size()) << 24);
  for (size_t i = 0; i < kept; ++i) word[1 + i] = bits_of(list[i]);
  arena.advance(1 + kept);
  return true;
}

bool put_tensor_list(Arena& arena, Values list) {
  if (!put_tag(arena, Tag::kTensorList, list.size())) return false;
  for (const c10::IValue& item : list) {
    if (!put_tensor(arena, item.toTensor())) return false;
  }
  return true;
}

bool put_value(Arena& arena, const c10::IValue& value, int depth = 0);

bool put_sequence(Arena& arena, Values values, bool is_tuple, int depth) {
  const size_t kept = std::min<size_t>(values.size(), kMaxListElements);
  if (!put_tag(arena, Tag::kSequence, (is_tuple ? 1 : 0) | static_cast<uint64_t>(kept) << 1)) return false;
  for (size_t i = 0; i < kept; ++i) {
    if (!put_value(arena, values[i], depth + 1)) return false;
  }
  return true;
}

// The elements are read where they are: torch's own accessors for lists of numbers copy them.
bool put_list(Arena& arena, const c10::IValue& value, int depth) {
  const Values list = value.toListRef();
  if (value.isIntList()) return put_numbers(arena, Tag::kIntList, list);
  if (value.isTensorList()) return put_tensor_list(arena, list);
  if (value.isDoubleList()) return put_numbers(arena, Tag::kDoubleList, list);
  if (value.isBoolList()) return put_numbers(arena, Tag::kBoolList, list);
  if (list.empty()) return put_tag(arena, Tag::kOtherList);
  return put_sequence(arena, list, /*is_tuple=*/false, depth);
}

bool put_int(Arena& arena, int64_t number) {
  if (is_short_int(number)) [[likely]]
    return put_tag(arena, Tag::kInt, short_int(number));
  return put_words(arena, make_tag(Tag::kLongInt), &number, 1, sizeof(number));
}

// What has no plain value is kept as torch's name for its kind. A process group can be told from
// another by its address, which the traces of collectives need.
bool put_other(Arena& arena, const c10::IValue& value) {
  if (!value.isObject()) return put_text(arena, Tag::kOther, value.tagKind());
  const c10::ivalue::Object& object = value.toObjectRef();
  if (object.name() != "__torch__.torch.classes.c10d.ProcessGroup" || object.slots().empty() ||
      !object.getSlot(0).isCapsule()) {
    return put_text(arena, Tag::kOther, "Object");
  }
  char text[40];
  const void* const group = object.getSlot(0).toCapsule().get();
  const int length = std::snprintf(text, sizeof(text), "ProcessGroup %p", group);
  return put_text(arena, Tag::kOther, {text, static_cast<size_t>(length)});
}

bool put_value(Arena& arena, const c10::IValue& value, int depth) {
  if (value.isTensor()) return put_tensor(arena, value.toTensor());
  if (value.isNone()) return put_tag(arena, Tag::kNone);
  if (value.isInt()) return put_int(arena, value.toInt());
  if (value.isBool()) return put_tag(arena, Tag::kBool, value.toBool());
  if (value.isDouble()) {
    const double number = value.toDouble();
    return put_words(arena, make_tag(Tag::kDouble), &number, 1, sizeof(number));
  }
  if (value.isList() && depth < kMaxSequenceDepth) return put_list(arena, value, depth);
  if (value.isDevice()) {
    const c10::Device device = value.toDevice();
    return put_tag(arena, Tag::kDevice,
                   static_cast<uint8_t>(device.type()) |
                       static_cast<uint64_t>(static_cast<uint8_t>(device.index())) << 8);
  }
  if (value.isString()) return put_text(arena, Tag::kString, value.toStringView());
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    const double parts[2] = {number.real(), number.imag()};
    return put_words(arena, make_tag(Tag::kComplex), parts, 2, sizeof(parts));
  }
  if (value.isTuple() && depth < kMaxSequenceDepth) {
    return put_sequence(arena, value.toTupleRef().elements(), /*is_tuple=*/true, depth);
  }
  return put_other(arena, value);
}

template <typename List, typename Keywords>
bool put_payload(Arena& arena, const List& values, const Keywords& keywords, bool for_all_windows) {
  uint64_t* head = arena.reserve(1);
  if (head == nullptr) return false;
  *head = make_head(values.size(), keywords.size(), for_all_windows);
  arena.advance(1);
  for (const c10::IValue& value : values) {
    if (!put_value(arena, value)) return false;
  }
  for (const auto& [name, value] : keywords) {
    if (!put_text(arena, Tag::kString, name) || !put_value(arena, value)) return false;
  }
  return true;
}

// Without memory for them, or with a tensor that refuses to say its shape, arguments are left out
// and counted.
template <typename List, typename Keywords>
uint32_t put_arguments(Arena& arena, const List& values, const Keywords& keywords,
                       bool for_all_windows = false) {
  if (!arena.begin()) return kCutArena;
  try {
    if (put_payload(arena, values, keywords, for_all_windows)) return arena.commit();
  } catch (const std::exception&) {
  }
  arena.cancel();
  return kCutArena;
}

using Keywords = std::unordered_map<std::string, c10::IValue>;
const Keywords kNoKeywords;

// What torch says of a collective comes as JSON: a quoted text, a number, or a list, which stays text.
c10::IValue plain_value(const std::string& json) {
  if (json.size() >= 2 && json.front() == '"') return json.substr(1, json.size() - 2);
  int64_t number = 0;
  const auto parsed = std::from_chars(json.data(), json.data() + json.size(), number);
  if (!json.empty() && parsed.ptr == json.data() + json.size()) return number;
  return json;
}

// A collective's process group, message sizes and the like, under the names torch.profiler gives
// them. Like torch.profiler, with or without the arguments of operators.
template <bool kInputs>
uint32_t put_collective(ThreadLog& log, const at::RecordFunction& fn) {
  Keywords keywords = fn.kwinputs();
  const torch::profiler::impl::SaveNcclMetaConfig config(
      /*truncate=*/false, /*introspectMetadata=*/true, /*introspectInputs=*/false,
      /*introspectOutputs=*/false);
  for (const auto& [name, json] : torch::profiler::impl::saveNcclMeta(fn, config)) {
    keywords.emplace(name, plain_value(json));
  }
  const c10::ArrayRef<const c10::IValue> none;
  return put_arguments(log.arena(), kInputs ? fn.inputs() : none, keywords, /*for_all_windows=*/true);
}

// Keyword arguments exist only on functions called by name from Python (_RecordFunctionFast), never
// on operators, and reading them copies a map. Operators have a schema, and its name a "::".
uint32_t put_inputs(ThreadLog& log, const at::RecordFunction& fn, const char* name) {
  if (std::strncmp(name, "aten::", 6) == 0) return put_arguments(log.arena(), fn.inputs(), kNoKeywords);
  return put_arguments(log.arena(), fn.inputs(), fn.kwinputs());
}

// ---- Callbacks -----------------------------------------------------------------------------

// Asked for once per name, so the copies that older versions of torch make do not matter.
template <typename Function>
std::string overload_of(const Function& fn) {
  if constexpr (requires { fn.overload_name(); }) {
    const char* overload = fn.overload_name();
    return overload == nullptr ? "" : overload;
  } else {
    const auto name = fn.operator_name();
    return name ? name->overload_name : "";
  }
}

uint32_t name_of(ThreadLog& log, const at::RecordFunction& fn, const char* text, bool with_overload) {
  const uint32_t known = log.names.find(text, with_overload);
  if (known != kNoName) [[likely]]
    return known;
  return core->intern(&log, text, with_overload ? overload_of(fn).c_str() : "", with_overload);
}

uint64_t key_of(const at::RecordFunction& fn) { return reinterpret_cast<uintptr_t>(&fn); }

void enter_thread();
constexpr uint32_t kEnteredThread = 1;

template <bool kInputs>
std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  const uint32_t wants = wanted();
  ThreadLog* log = this_thread();
  if (wants == 0 || log == nullptr) [[unlikely]]
    return nullptr;
  // An outermost span is where a thread that did not start the profile is first met, and where one
  // that swapped its thread-local state (an autograd worker) is met again.
  if (log->depth() == 0 && ((wants & kWantMemory) != 0 || log->source_state != kEnteredThread)) [[unlikely]] {
    enter_thread();
    log->source_state = kEnteredThread;
  }
  Record* record = log->open_span(key_of(fn));
  if (record == nullptr) [[unlikely]]
    return nullptr;
  const at::RecordScope scope = fn.scope();
  record->kind = scope == at::RecordScope::USER_SCOPE ? RecordKind::kAnnotation : RecordKind::kOperator;
  record->scope = static_cast<uint8_t>(scope);
  record->sequence_number = fn.seqNr();
  record->forward_thread = static_cast<uint32_t>(fn.forwardThreadId());
  record->name = kNoName;
  try {
    const char* name = fn.name();
    record->name = name_of(*log, fn, name, (wants & kWantOverloads) != 0);
    if (fn.isNcclMeta()) [[unlikely]] {
      record->arena = put_collective<kInputs>(*log, fn);
    } else if constexpr (kInputs) {
      record->arena = put_inputs(*log, fn, name);
    }
    // Work that a collective hands to another thread belongs to the thread that asked for it.
    if (record->kind == RecordKind::kAnnotation) {
      if (fn.threadId() != log->torch_thread_id) record->detail = static_cast<uint32_t>(fn.threadId());
      if (fn.isAsync()) record->detail |= kAsynchronous;
    }
  } catch (const std::exception& error) {
    core->fault(error.what());
  }
  record->ticks = now_ticks();  // last: what is recorded above is not part of the span
  log->publish_span();
  return nullptr;
}

template <bool kOutputs>
void on_end(const at::RecordFunction& fn, at::ObserverContext*) {
  const uint64_t ticks = now_ticks();
  ThreadLog* log = this_thread();
  if (log == nullptr) [[unlikely]]
    return;
  if constexpr (kOutputs) {
    Record* record = log->append_results(key_of(fn));
    if (record != nullptr) {
      record->ticks = ticks;
      record->end = key_of(fn);
      record->arena = put_arguments(log->arena(), fn.outputs(), kNoKeywords);
      log->publish();
    }
  }
  log->close_span(key_of(fn), ticks);
}

// ---- Memory and compiled regions -----------------------------------------------------------

// torch reports memory only to the object in a thread's PROFILER_STATE slot, and compiled regions
// emit spans only while that slot is filled. torch casts whatever is there to ProfilerStateBase.
class Reporter final : public ProfilerStateBase {
 public:
  Reporter() : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled)) {}

  ActiveProfilerType profilerType() override {
    return config_.state == ProfilerState::Disabled ? ActiveProfilerType::NONE : ActiveProfilerType::KINETO;
  }
  // NVTX is the state for which torch neither casts us to its own class nor expects Kineto.
  void enable(uint32_t wants) {
    const bool enabled = wants != 0 || range_handle != at::INVALID_CALLBACK_HANDLE;
    config_.state = enabled ? ProfilerState::NVTX : ProfilerState::Disabled;
    config_.profile_memory = (wants & kWantMemory) != 0;
    config_.report_input_shapes = (wants & kWantInputs) != 0;  // _RecordFunctionFast asks
  }
  bool memoryProfilingEnabled() const override { return (wanted() & kWantMemory) != 0; }

  void reportMemoryUsage(void* address, int64_t size_bytes, size_t total_allocated, size_t total_reserved,
                         c10::Device device) override {
    append(size_bytes >= 0 ? RecordKind::kAllocate : RecordKind::kFree, address, size_bytes, total_allocated,
           total_reserved, device);
  }
  void reportOutOfMemory(int64_t size_bytes, size_t total_allocated, size_t total_reserved,
                         c10::Device device) override {
    append(RecordKind::kOutOfMemory, nullptr, size_bytes, total_allocated, total_reserved, device);
  }

 private:
  static void append(RecordKind kind, void* address, int64_t size_bytes, size_t total_allocated,
                     size_t total_reserved, c10::Device device) {
    ThreadLog* log = this_thread();
    if (log == nullptr || (wanted() & kWantMemory) == 0) return;
    Record* record = log->append(kind);
    if (record == nullptr) return;
    record->end = reinterpret_cast<uintptr_t>(address);
    record->sequence_number = size_bytes;
    record->name = static_cast<uint32_t>(total_allocated);
    record->arena = static_cast<uint32_t>(static_cast<uint64_t>(total_allocated) >> 32);
    record->forward_thread = kNoArena;
    if (total_reserved != 0 && log->arena().begin()) {
      if (uint64_t* word = log->arena().reserve(1); word != nullptr) {
        *word = total_reserved;
        log->arena().advance(1);
        record->forward_thread = log->arena().commit();
      }
    }
    record->scope = static_cast<uint8_t>(device.type());
    record->device_index = device.index();
    record->ticks = now_ticks();
    log->publish();
  }
};

// One for the process: threads inherit the slot's content from whoever started their work.
const std::shared_ptr<Reporter>& reporter() {
  static const auto* instance = new std::shared_ptr<Reporter>(std::make_shared<Reporter>());
  return *instance;
}

void enter_thread() {
  if (ProfilerStateBase::get(/*global=*/false) != nullptr) return;  // us, or torch's own profiler
  c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, reporter());
}

// Takes us out of the slot again, if nothing was pushed on top since. Where that cannot be done (a
// thread other than the one stopping) the object stays and answers "disabled".
void leave_thread() {
  if (cached_log != nullptr) cached_log->source_state = 0;
  if (ProfilerStateBase::get(/*global=*/false) != reporter().get()) return;
  try {
    c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  } catch (const std::exception&) {
  }
}

void forget_thread() {
  cached_log = nullptr;
  HeldTensors::forget_thread();
}

// ---- What the core calls -------------------------------------------------------------------

void register_callbacks(uint32_t wants) {
  const bool inputs = (wants & kWantInputs) != 0;
  const bool outputs = (wants & kWantOutputs) != 0;
  at::RecordFunctionCallback callback(inputs ? &on_start<true> : &on_start<false>,
                                      outputs ? &on_end<true> : &on_end<false>);
  callback.needsInputs(inputs).needsOutputs(outputs);
  if ((wants & kWantOperators) == 0) callback.scopes({at::RecordScope::USER_SCOPE});
  callback_handle = at::addGlobalCallback(callback);
}

bool configure(uint32_t wants, char* message, size_t message_bytes) {
  try {
    if (callback_handle != at::INVALID_CALLBACK_HANDLE) {
      at::removeCallback(callback_handle);
      callback_handle = at::INVALID_CALLBACK_HANDLE;
    }
    reporter()->enable(wants);
    holding = (wants & kWantInputs) != 0 && (wants & kWantMemory) != 0;
    if ((wants & (kWantOperators | kWantAnnotations)) != 0) register_callbacks(wants);
    return true;
  } catch (const std::exception& error) {
    std::snprintf(message, message_bytes, "torch refused opscope's callbacks: %s", error.what());
    return false;
  }
}

void start_ranges(const RangeSink* sink, bool with_ids, bool with_shapes) {
  emit_ranges(sink, with_ids, with_shapes);
  reporter()->enable(wanted());
}

// Median over rounds, because one interrupted round would spoil a mean.
double time_spans(bool empty_callback) {
  constexpr int kRounds = 9;
  constexpr int kSpans = 512;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  if (empty_callback) {
    handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> { return nullptr; },
        [](const at::RecordFunction&, at::ObserverContext*) {}));
  }
  std::vector<int64_t> elapsed_ns;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < kSpans; ++i) {
      at::RecordFunction guard(at::RecordScope::FUNCTION);
      if (guard.isActive()) guard.before("opscope::calibration");
    }
    elapsed_ns.push_back(clock_ns(CLOCK_MONOTONIC) - start_ns);
  }
  if (empty_callback) at::removeCallback(handle);
  std::nth_element(elapsed_ns.begin(), elapsed_ns.begin() + kRounds / 2, elapsed_ns.end());
  return static_cast<double>(elapsed_ns[kRounds / 2]) / kSpans;
}

const BridgeApi bridge = {
    kCoreApiVersion,        OPSCOPE_TORCH_VERSION,    &configure,    &enter_thread,
    &leave_thread,          &forget_thread,           &time_spans,   [] { HeldTensors::release_all(); },
    &HeldTensors::not_held, &HeldTensors::set_budget, &start_ranges, &itt_ranges};

}  // namespace
}  // namespace opscope

extern "C" __attribute__((visibility("default"))) const opscope::BridgeApi* opscope_attach(
    const opscope::CoreApi* core_api) {
  if (core_api->version != opscope::kCoreApiVersion) return nullptr;
  opscope::core = core_api;
  return &opscope::bridge;
}
