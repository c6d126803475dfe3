// Which free gives back which block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "numpy/column_view.h"
#include "schema/codes.h"

namespace opscope::readers {

struct MemoryEvents {
  ColumnView<uint8_t> action;
  ColumnView<int8_t> device_type;
  ColumnView<int8_t> device_index;
  ColumnView<uint64_t> address;
};

// Numbers allocations in order; a free has the number of the block that was there, -1 if none was.
inline std::vector<int64_t> pair_allocations(const MemoryEvents& events) {
  struct Block {
    uint64_t address;
    uint16_t device;
    bool operator==(const Block&) const = default;
  };
  struct Hash {
    size_t operator()(const Block& block) const {
      return (block.address ^ uint64_t{block.device} << 48) * 0x9e3779b97f4a7c15u >> 16;
    }
  };
  std::unordered_map<Block, int64_t, Hash> live;
  std::vector<int64_t> result(events.action.size, -1);
  int64_t number = 0;
  for (size_t row = 0; row < result.size(); ++row) {
    const int device =
        static_cast<uint8_t>(events.device_type[row]) << 8 | static_cast<uint8_t>(events.device_index[row]);
    const Block block{events.address[row], static_cast<uint16_t>(device)};
    if (events.action[row] == AllocationAction::kAllocate) {
      live[block] = result[row] = number++;
    } else if (events.action[row] == AllocationAction::kFree) {
      const auto found = live.find(block);
      if (found == live.end()) continue;
      result[row] = found->second;
      live.erase(found);
    }
  }
  return result;
}

}  // namespace opscope::readers
