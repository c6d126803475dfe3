// Nodes of graphs of device work: which captured node each node of an instantiated graph is a copy of.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace opscope::gpu {

// Where and when a node was captured, or the node it is a copy of.
struct GraphNode {
  uint64_t original = 0;  // 0: it was captured
  uint64_t ticks = 0;
  int64_t thread = 0;
};

class GraphNodes {
 public:
  // [MT] This thread captures `node` now, or clones it from `original` (0 for none). Called from callbacks of
  // C libraries, so it raises nothing: a node it has no memory for is linked to its launch alone.
  void add(uint64_t node, uint64_t original) noexcept;
  // [MT] The node that was captured for this one, if that was seen.
  bool find_capture(uint64_t node, uint64_t& captured, GraphNode& capture);
  // [MT] Every node that was captured, not cloned, in order of its id.
  std::vector<std::pair<uint64_t, GraphNode>> captures();
  // [MT] Those that were added later than this, captured or cloned.
  std::vector<std::pair<uint64_t, GraphNode>> added_after(uint64_t ticks);
  // [MT] As it was added in another process.
  void restore(uint64_t node, const GraphNode& added);

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, GraphNode> nodes_;
  uint64_t last_added_ = 0;  // in ticks
};

}  // namespace opscope::gpu
