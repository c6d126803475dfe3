// Which block of memory every tensor, parameter and allocation is: one number per (tensor id,
// allocation id, device), in that order.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/input.h"
#include "memory/tree_order.h"

namespace opscope::memory {

constexpr int32_t kUnknown = -1;

struct TensorKeys {
  // Per key.
  std::vector<int64_t> tensor_id, allocation_id;
  std::vector<int8_t> device_type, device_index;
  std::vector<int32_t> tensor;      // number of its tensor id: ids may have gaps, these have none
  std::vector<int64_t> size_bytes;  // see measure_keys
  // Per row: its key, or kUnknown.
  std::vector<int32_t> of_tensor, of_allocation, of_parameter;

  size_t size() const { return tensor_id.size(); }
  size_t tensor_count() const { return tensor.empty() ? 0 : static_cast<size_t>(tensor.back()) + 1; }
};

// `is_input`: rows of tensors that count, see data_flow.h.
TensorKeys number_keys(const Tables& tables, const std::vector<uint8_t>& is_input);

// A block is as large as its allocation says or, if that was not seen, as the largest tensor seen in
// it. `item_bytes` is by dtype.
void measure_keys(const Tables& tables, const TreeOrder& tree, const ColumnView<int64_t>& item_bytes,
                  TensorKeys& keys);

}  // namespace opscope::memory
