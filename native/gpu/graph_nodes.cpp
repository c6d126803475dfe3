#include "gpu/graph_nodes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "log/clock.h"

namespace opscope::gpu {

namespace {

constexpr size_t kMaxNodes = size_t{4} << 20;
constexpr int kMaxCopies = 16;  // chain length; a longer chain is a cycle of reused ids

}  // namespace

void GraphNodes::add(uint64_t node, uint64_t original) noexcept {
  std::lock_guard lock(mutex_);
  if (nodes_.size() >= kMaxNodes) return;
  try {
    last_added_ = std::max(last_added_ + 1, now_ticks());  // unique, so that added_after() misses none
    nodes_[node] = {original, last_added_, static_cast<int64_t>(syscall(SYS_gettid))};
  } catch (const std::bad_alloc&) {
  }
}

bool GraphNodes::find_capture(uint64_t node, uint64_t& captured, GraphNode& capture) {
  std::lock_guard lock(mutex_);
  for (int hops = 0; hops < kMaxCopies; ++hops) {
    const auto found = nodes_.find(node);
    if (found == nodes_.end()) return false;
    if (found->second.original == 0) {
      captured = node;
      capture = found->second;
      return true;
    }
    node = found->second.original;
  }
  return false;
}

std::vector<std::pair<uint64_t, GraphNode>> GraphNodes::added_after(uint64_t ticks) {
  std::lock_guard lock(mutex_);
  if (last_added_ <= ticks) return {};
  std::vector<std::pair<uint64_t, GraphNode>> result;
  for (const auto& [id, node] : nodes_) {
    if (node.ticks > ticks) result.emplace_back(id, node);
  }
  return result;
}

void GraphNodes::restore(uint64_t node, const GraphNode& added) {
  std::lock_guard lock(mutex_);
  nodes_[node] = added;
}

std::vector<std::pair<uint64_t, GraphNode>> GraphNodes::captures() {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<uint64_t, GraphNode>> result;
  for (const auto& [id, node] : nodes_) {
    if (node.original == 0) result.emplace_back(id, node);
  }
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return result;
}

}  // namespace opscope::gpu
