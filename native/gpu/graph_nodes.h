// Nodes of device graphs: maps each node of an instantiated graph to the captured node.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace opscope::gpu {

// Time and thread of a node's capture, or the node that it copies.
struct GraphNode {
  uint64_t original = 0;  // 0: captured
  uint64_t ticks = 0;
  int64_t thread = 0;
};

class GraphNodes {
 public:
  // [MT] This thread captures `node` now, or clones it from `original` (0 for none). Callbacks of C libraries
  // call this, so it raises nothing: if memory is short, the node is linked only to its launch.
  void add(uint64_t node, uint64_t original) noexcept;
  // [MT] Finds the captured node of this one, if it is known.
  bool find_capture(uint64_t node, uint64_t& captured, GraphNode& capture);
  // [MT] Captured nodes without clones, by id.
  std::vector<std::pair<uint64_t, GraphNode>> captures();
  // [MT] Nodes added later, captured or cloned.
  std::vector<std::pair<uint64_t, GraphNode>> added_after(uint64_t ticks);
  // [MT] Adds a node as another process did.
  void restore(uint64_t node, const GraphNode& added);

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, GraphNode> nodes_;
  uint64_t last_added_ = 0;  // in ticks
};

}  // namespace opscope::gpu
