// What every version of every block of memory was for, by torch's rules.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/data_flow.h"

namespace opscope::memory {

using Category = MemoryCategory;

// A tensor's category holds for all its blocks, a block's for all its versions.
struct Categories {
  std::vector<Category> of_tensor;  // by TensorKeys::tensor
  std::vector<Category> of_key;
  std::vector<Category> of_version;  // by DataFlow::version_offsets
  std::vector<uint8_t> labelled;     // keys through which a tensor got its category

  Category get(const TensorKeys& keys, int32_t key, int64_t version) const {
    const Category tensor = of_tensor[static_cast<size_t>(keys.tensor[static_cast<size_t>(key)])];
    if (tensor != Category::kUnknown) return tensor;
    const Category whole = of_key[static_cast<size_t>(key)];
    return whole != Category::kUnknown ? whole : of_version[static_cast<size_t>(version)];
  }
};

// Names of the autograd node that stores a gradient, and of the operators it may begin with: rows in
// names, -1 for one that was not called.
struct GradientNames {
  int32_t accumulate = -1;
  int32_t detach = -1;
  int32_t add = -1;
};

Categories categorize(const Tables& tables, const TreeOrder& tree, const TensorKeys& keys,
                      const DataFlow& flow, const GradientNames& names);

// Versions that the data flow graph or a label knows. Shape (versions,).
std::vector<uint8_t> known_versions(const DataFlow& flow, const std::vector<uint8_t>& labelled);

}  // namespace opscope::memory
