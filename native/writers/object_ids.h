// Small numbers for addresses, as execution traces name tensors and storages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope::writers {

class ObjectIds {
 public:
  // The number of the object at `address` in its `life`-th life there; if it has none yet, `next`,
  // which is raised then.
  uint64_t id(uint64_t address, uint64_t life, uint64_t& next) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    Slot& slot = find(address, life);
    if (slot.id == 0) {
      slot = {address, life, next++};
      ++used_;
    }
    return slot.id;
  }

 private:
  struct Slot {
    uint64_t address = 0;
    uint64_t life = 0;
    uint64_t id = 0;  // 0: free
  };

  Slot& find(uint64_t address, uint64_t life) {
    const size_t mask = slots_.size() - 1;
    size_t i = ((address ^ life * 0xd6e8feb86659fd93) * 0x9e3779b97f4a7c15 >> 24) & mask;
    while (slots_[i].id != 0 && (slots_[i].address != address || slots_[i].life != life)) i = (i + 1) & mask;
    return slots_[i];
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 1024 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id != 0) find(slot.address, slot.life) = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

}  // namespace opscope::writers
