// Part of torch_bridge.cpp: tensors whose addresses must not be reused.
#pragma once

#include <ATen/SparseTensorImpl.h>
#include <c10/core/TensorImpl.h>

#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <typeinfo>
#include <vector>

namespace opscope {
namespace {

// The address of a TensorImpl identifies a tensor, so it must not be reused while inputs and memory are
// recorded together. A weak reference ensures that: it keeps the struct of some 200 bytes, never the tensor's
// data. The owning thread appends to its list. Any thread may release published entries: all between
// recordings, or those from before a mark for a recording that forgets its start. A tensor that is used after
// a mark is held once more.
//
// Only classes that release everything with the last strong reference are held. Others (nested, compressed
// sparse, quantized, functorch's wrappers) keep further tensors until they are destroyed.
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
    if (slot == impl) return;  // already held since the last mark
    if (!is_empty_once_dead(*impl)) return;
    if (held_bytes_.load(std::memory_order_relaxed) >= most_bytes_.load(std::memory_order_relaxed)) {
      not_held_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    slot = impl;
    const bool is_first = add_weak_reference(impl);
    held_bytes_.fetch_add(bytes_of(is_first), std::memory_order_relaxed);
    if (used_ == Block::kItems) add_block();
    tail_->items[used_++] = reinterpret_cast<uintptr_t>(impl) | (is_first ? kIsFirst : 0);
    published_.store(published_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  static HeldTensors& this_thread() {
    if (this_list_ == nullptr) {
      std::lock_guard lock(mutex());
      this_list_ = lists().emplace_back(new HeldTensors);
    }
    return *this_list_;
  }

  // From now on each used tensor is held again. Numbers of marks increase.
  static uint64_t mark() {
    std::lock_guard lock(mutex());
    const uint64_t number = epoch_.fetch_add(1) + 1;  // makes threads clear their caches
    for (HeldTensors* list : lists()) {
      list->marks_.push_back({number, list->published_.load(std::memory_order_acquire)});
    }
    return number;
  }

  // Releases at most `most` tensors held before the mark that precedes this one, or all for UINT64_MAX. Not
  // all before this mark: a thread that has not yet seen it relies on tensors held since the previous one.
  // Returns whether none are left.
  static bool release_before(uint64_t mark, uint64_t most) {
    std::lock_guard lock(mutex());
    uint64_t left = most;
    for (HeldTensors* list : lists()) {
      const uint64_t published = list->published_.load(std::memory_order_acquire);
      if (mark == UINT64_MAX) list->marks_.clear();
      left -= list->release_to(mark == UINT64_MAX ? published : list->published_at(mark - 1), left);
    }
    remove_finished();
    return left != 0;
  }

  static void release_all() {
    release_before(UINT64_MAX, UINT64_MAX);
    mark();
  }

  // [owner] The thread ends: the next release removes its list.
  static void forget_thread() {
    std::lock_guard lock(mutex());
    if (this_list_ != nullptr) this_list_->finished_ = true;
    this_list_ = nullptr;
  }

  // In a forked child: the tensors belong to the parent, whose threads may have been adding some. Keeps them.
  static void leave_to_parent() {
    std::lock_guard lock(mutex());
    lists().clear();
    this_list_ = nullptr;
    held_bytes_.store(0);
    list_bytes_.store(0);
  }

  static std::mutex& mutex() {
    static auto* instance = new std::mutex;
    return *instance;
  }

  static void set_budget(uint64_t bytes) { most_bytes_.store(bytes); }
  // Bytes of structs kept only by this, and of the lists.
  static uint64_t held_bytes() {
    return held_bytes_.load(std::memory_order_relaxed) + list_bytes_.load(std::memory_order_relaxed);
  }
  static uint64_t not_held() { return not_held_.load(std::memory_order_relaxed); }

 private:
  struct Block {
    static constexpr size_t kItems = 4096;
    uintptr_t items[kItems];  // pointers, with kIsFirst
    std::atomic<Block*> next{nullptr};
  };
  struct Mark {
    uint64_t number;
    uint64_t published;  // count before the mark
  };
  static constexpr uintptr_t kIsFirst = 1;  // the first hold, which accounts for the struct

  HeldTensors() : tail_(new Block), head_(tail_) { list_bytes_.fetch_add(sizeof(*this) + sizeof(Block)); }
  ~HeldTensors() {
    delete tail_;  // everything else was released
    list_bytes_.fetch_sub(sizeof(*this) + sizeof(Block));
  }

  void add_block() {
    auto* block = new Block;
    tail_->next.store(block, std::memory_order_release);
    tail_ = block;
    used_ = 0;
  }

  // Releases up to `most` entries before `end`. Returns their number.
  uint64_t release_to(uint64_t end, uint64_t most) {
    const uint64_t begin = released_;
    for (; released_ < end && released_ - begin < most; ++released_, ++head_used_) {
      if (head_used_ == Block::kItems) {
        Block* next = head_->next.load(std::memory_order_acquire);
        delete head_;
        head_ = next;
        head_used_ = 0;
      }
      const uintptr_t item = head_->items[head_used_];
      held_bytes_.fetch_sub(bytes_of((item & kIsFirst) != 0), std::memory_order_relaxed);
      c10::raw::weak_intrusive_ptr::decref(reinterpret_cast<c10::TensorImpl*>(item & ~kIsFirst));
    }
    return released_ - begin;
  }

  // Count at a mark; removes earlier marks. 0 for a thread that began later.
  uint64_t published_at(uint64_t number) {
    while (!marks_.empty() && marks_.front().number < number) marks_.pop_front();
    return !marks_.empty() && marks_.front().number == number ? marks_.front().published : 0;
  }

  static void remove_finished() {
    std::erase_if(lists(), [](HeldTensors* list) {
      if (!list->finished_ || list->released_ < list->published_.load(std::memory_order_acquire))
        return false;
      delete list;
      return true;
    });
  }

  // Returns whether this is the first weak reference.
  static bool add_weak_reference(c10::TensorImpl* impl) {
    c10::raw::weak_intrusive_ptr::incref(impl);
    auto reference = c10::weak_intrusive_ptr<c10::intrusive_ptr_target>::reclaim(impl);
    const bool is_first = reference.weak_use_count() == 2;  // all strong ones count as one
    reference.release();
    return is_first;
  }

  static constexpr uint64_t bytes_of(bool is_first) {
    return sizeof(uintptr_t) + (is_first ? sizeof(c10::TensorImpl) : 0);
  }

  static bool is_empty_once_dead(const c10::TensorImpl& impl) {
    const std::type_info& type = typeid(impl);
    return type == typeid(c10::TensorImpl) || type == typeid(at::SparseTensorImpl);
  }

  static std::vector<HeldTensors*>& lists() {
    static auto* instance = new std::vector<HeldTensors*>;
    return *instance;
  }

  static inline thread_local HeldTensors* this_list_ = nullptr;
  static inline std::atomic<uint64_t> epoch_{1};
  static inline std::atomic<uint64_t> held_bytes_{0};  // limited by the budget
  static inline std::atomic<uint64_t> list_bytes_{0};  // of the empty lists
  static inline std::atomic<uint64_t> not_held_{0};
  static inline std::atomic<uint64_t> most_bytes_{512u << 20};

  // Used by the owner.
  std::array<const void*, 2048> cache_{};
  uint64_t cache_epoch_ = 0;
  size_t used_ = 0;  // in the tail block
  Block* tail_;
  std::atomic<uint64_t> published_{0};
  // Used by releases, under the mutex.
  Block* head_;
  size_t head_used_ = 0;
  uint64_t released_ = 0;
  std::deque<Mark> marks_;
  bool finished_ = false;
};

}  // namespace
}  // namespace opscope
