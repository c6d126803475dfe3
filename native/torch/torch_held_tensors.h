// Part of torch_bridge.cpp: tensors whose address is kept from being reused.
#pragma once

#include <ATen/SparseTensorImpl.h>
#include <c10/core/TensorImpl.h>

#include <array>
#include <atomic>
#include <mutex>
#include <typeinfo>
#include <vector>

namespace opscope {
namespace {

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
    epoch_.fetch_add(1);  // tells threads to drop their caches of what is held
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

  // In a forked child the other threads are gone.
  static void keep_only_this_thread() {
    std::lock_guard lock(mutex());
    for (HeldTensors* list : lists()) list->finished_ |= list != this_list_;
  }

  static std::mutex& mutex() {
    static auto* instance = new std::mutex;
    return *instance;
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

}  // namespace
}  // namespace opscope
