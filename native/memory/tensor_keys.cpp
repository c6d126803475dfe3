#include <algorithm>
#include <numeric>
#include <tuple>

#include "memory/accounts.h"
#include "schema/numbering.h"

namespace opscope::memory {

namespace {

struct Key {
  int64_t tensor_id = 0;
  int64_t allocation_id = 0;
  int8_t device_type = 0;
  int8_t device_index = 0;

  auto operator<=>(const Key&) const = default;
  struct Hash {
    uint64_t operator()(const Key& key) const {
      return static_cast<uint64_t>(key.allocation_id) ^ static_cast<uint64_t>(key.tensor_id) << 32 ^
             static_cast<uint64_t>(key.device_index) << 56;
    }
  };
};

using KeyNumbers = Numbering<Key, Key::Hash>;

std::vector<int32_t> add_rows(const Identity& identity, size_t rows, const std::vector<uint8_t>* wanted,
                              KeyNumbers& numbers) {
  std::vector<int32_t> of_row(rows, kUnknown);
  for (size_t row = 0; row < rows; ++row) {
    if ((wanted != nullptr && (*wanted)[row] == 0) || !identity.known(row)) continue;
    of_row[row] = numbers.of({identity.tensor_id[row], identity.allocation_id[row], identity.device_type[row],
                              identity.device_index[row]});
  }
  return of_row;
}

void renumber(const std::vector<int32_t>& ranks, std::vector<int32_t>& of_row) {
  for (int32_t& key : of_row) {
    if (key != kUnknown) key = ranks[static_cast<size_t>(key)];
  }
}

// Bytes from a tensor's first element to its last, as torch's memory profiler counts them.
int64_t extent(const Shapes& shapes, size_t row, const ColumnView<int64_t>& item_bytes) {
  const int8_t dtype = shapes.dtype[row];
  if (shapes.layout[row] != Layout::kStrided || dtype < 0 || static_cast<size_t>(dtype) >= item_bytes.size)
    return 0;
  const auto sizes = shapes.sizes[row];
  const auto strides = shapes.strides[row];
  if (sizes.empty() || strides.size() != sizes.size()) return sizes.empty() ? item_bytes[dtype] : 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    // No tensor is that large: the size comes from a damaged file.
    if (__builtin_mul_overflow(sizes[i], strides[i], &reach) ||
        __builtin_mul_overflow(reach, item_bytes[dtype], &reach)) {
      return 0;
    }
    bytes = std::max(bytes, reach);
  }
  return bytes;
}

void measure(const std::vector<int32_t>& key_of, const Shapes& shapes, const ColumnView<int64_t>& item_bytes,
             TensorKeys& keys) {
  for (size_t row = 0; row < key_of.size(); ++row) {
    if (key_of[row] == kUnknown) continue;
    int64_t& size = keys.size_bytes[static_cast<size_t>(key_of[row])];
    size = std::max(size, extent(shapes, row, item_bytes));
  }
}

}  // namespace

TensorKeys number_keys(const Tables& tables, const std::vector<uint8_t>& is_input) {
  KeyNumbers numbers;
  TensorKeys result;
  result.of_tensor = add_rows(tables.tensors.identity, tables.tensors.size(), &is_input, numbers);
  result.of_allocation = add_rows(tables.allocations.identity, tables.allocations.size(), nullptr, numbers);
  result.of_parameter = add_rows(tables.parameters.identity, tables.parameters.size(), nullptr, numbers);
  const std::vector<Key>& keys = numbers.keys();
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  std::vector<int32_t> ranks(keys.size());
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const Key& key = keys[order[rank]];
    ranks[order[rank]] = static_cast<int32_t>(rank);
    result.tensor_id.push_back(key.tensor_id);
    result.allocation_id.push_back(key.allocation_id);
    result.device_type.push_back(key.device_type);
    result.device_index.push_back(key.device_index);
    const bool is_new = rank == 0 || key.tensor_id != result.tensor_id[rank - 1];
    result.tensor.push_back(rank == 0 ? 0 : result.tensor.back() + (is_new ? 1 : 0));
  }
  for (auto* of_row : {&result.of_tensor, &result.of_allocation, &result.of_parameter})
    renumber(ranks, *of_row);
  return result;
}

void measure_keys(const Tables& tables, const TreeOrder& tree, const ColumnView<int64_t>& item_bytes,
                  TensorKeys& keys) {
  keys.size_bytes.assign(keys.size(), 0);
  measure(keys.of_tensor, tables.tensors.shapes, item_bytes, keys);
  measure(keys.of_parameter, tables.parameters.shapes, item_bytes, keys);
  std::vector<int32_t> first(keys.size(), kUnknown);  // first allocation of each key
  const auto events = static_cast<int32_t>(tables.events.size());
  const auto before = [&](int32_t a, int32_t b) {
    const int64_t time_a = tables.allocations.time_ns[static_cast<size_t>(a)];
    const int64_t time_b = tables.allocations.time_ns[static_cast<size_t>(b)];
    return std::tuple(time_a, tree.position[events + a]) < std::tuple(time_b, tree.position[events + b]);
  };
  for (size_t row = 0; row < keys.of_allocation.size(); ++row) {
    const int32_t key = keys.of_allocation[row];
    if (key == kUnknown || tables.allocations.action[row] == AllocationAction::kOutOfMemory) continue;
    int32_t& earliest = first[static_cast<size_t>(key)];
    if (earliest == kUnknown || before(static_cast<int32_t>(row), earliest))
      earliest = static_cast<int32_t>(row);
  }
  for (size_t key = 0; key < first.size(); ++key) {
    if (first[key] != kUnknown) {
      keys.size_bytes[key] = magnitude(tables.allocations.size_bytes[static_cast<size_t>(first[key])]);
    }
  }
}

}  // namespace opscope::memory
