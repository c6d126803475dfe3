// Numbers for keys, from 0 in order of first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope {

// Mixes the result of `hash`, which may therefore be simple.
template <class Key, class Hash>
class Numbering {
 public:
  int32_t of(const Key& key) {
    // The same key mostly follows as last time.
    int32_t number = next_[before_];
    if (number < 0 || !(keys_[static_cast<size_t>(number)] == key)) {
      number = of_any(key);
      next_[before_] = number;
    }
    before_ = static_cast<size_t>(number) + 1;
    return number;
  }

  // For keys in no repeating order.
  int32_t of_any(const Key& key) {
    int32_t& slot = slot_of(key);
    if (slot >= 0) return slot;
    const auto number = slot = static_cast<int32_t>(keys_.size());
    keys_.push_back(key);
    next_.push_back(-1);
    if (keys_.size() * 2 > slots_.size()) grow();
    return number;
  }

  const std::vector<Key>& keys() const { return keys_; }  // by number

 private:
  int32_t& slot_of(const Key& key) {
    const size_t last = slots_.size() - 1;
    size_t slot = Hash{}(key) * 0x9E3779B97F4A7C15U >> 32 & last;
    while (slots_[slot] >= 0 && !(keys_[static_cast<size_t>(slots_[slot])] == key)) slot = (slot + 1) & last;
    return slots_[slot];
  }
  void grow() {
    slots_.assign(slots_.size() * 4, -1);
    for (size_t i = 0; i < keys_.size(); ++i) slot_of(keys_[i]) = static_cast<int32_t>(i);
  }

  std::vector<Key> keys_;
  std::vector<int32_t> next_ = {-1};  // successor of the beginning and of each number
  size_t before_ = 0;
  std::vector<int32_t> slots_ = std::vector<int32_t>(1024, -1);  // -1 for none
};

}  // namespace opscope
