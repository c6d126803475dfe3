// The call tree of events and allocations, walked depth first.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/input.h"

namespace opscope::memory {

// Nodes are the rows of events, then those of allocations.
struct TreeOrder {
  std::vector<int32_t> preorder;  // parents before children, children in order of time
  std::vector<int32_t> position;  // of every node in preorder; -1 if no root leads to it
  std::vector<int32_t> end;       // a node's subtree is preorder[position, end)
  std::vector<int32_t> parent;    // -1 for roots
  std::vector<int64_t> time_ns;
};

TreeOrder order_tree(const Tables& tables);

}  // namespace opscope::memory
