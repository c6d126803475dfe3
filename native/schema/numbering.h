// Numbers for keys, from 0 in order of first use: equal ones have one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope {

// What `hash` gives is mixed here, so that it may be as simple as keys allow.
template <class Key, class Hash>
class Numbering {
 public:
  int32_t of(const Key& key) {
    // What came after the one before last time mostly comes after it again.
    int32_t number = next_[before_];
    if (number < 0 || !(keys_[static_cast<size_t>(number)] == key)) {
      number = looked_up(key);
      next_[before_] = number;
    }
    before_ = static_cast<size_t>(number) + 1;
    return number;
  }

  const std::vector<Key>& keys() const { return keys_; }  // by number

 private:
  struct Slot {
    Key key{};
    int32_t number = -1;  // -1 for none
  };

  int32_t looked_up(const Key& key) {
    const size_t slot = slot_of(key);
    if (slots_[slot].number >= 0) return slots_[slot].number;
    const auto number = static_cast<int32_t>(keys_.size());
    slots_[slot] = {key, number};
    keys_.push_back(key);
    next_.push_back(-1);
    if (keys_.size() * 2 > slots_.size()) grow();
    return number;
  }
  size_t slot_of(const Key& key) const {
    const size_t last = slots_.size() - 1;
    size_t slot = Hash{}(key) * 0x9E3779B97F4A7C15U >> 32 & last;
    while (slots_[slot].number >= 0 && !(slots_[slot].key == key)) slot = (slot + 1) & last;
    return slot;
  }
  void grow() {
    slots_.assign(slots_.size() * 4, Slot{});
    for (size_t i = 0; i < keys_.size(); ++i) slots_[slot_of(keys_[i])] = {keys_[i], static_cast<int32_t>(i)};
  }

  std::vector<Key> keys_;
  std::vector<int32_t> next_ = {-1};  // of the beginning and each number, what came after it last time
  size_t before_ = 0;
  std::vector<Slot> slots_ = std::vector<Slot>(1024);
};

}  // namespace opscope
