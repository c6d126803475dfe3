#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "memory/accounts.h"

namespace opscope::memory {

namespace {

struct Entry {
  int64_t time_ns;
  Action action;
  int32_t key;
  int32_t version;
  int64_t size_bytes;
  int8_t device_type, device_index;
};

class TimelineBuilder {
 public:
  TimelineBuilder(const Tables& tables, const TreeOrder& tree, const TensorKeys& keys, const DataFlow& flow,
                  const Categories& categories)
      : tables_(tables),
        tree_(tree),
        keys_(keys),
        flow_(flow),
        known_(known_versions(flow, categories.labelled)),
        allocated_ns_(keys.size(), kBeforeRecording),
        freed_ns_(keys.size(), kBeforeRecording),
        was_allocated_(keys.size(), 0) {}

  Timeline build() {
    add_allocations();
    add_preexisting();
    for (size_t node = 0; node < flow_.node.size(); ++node) add_node(node);
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return std::tuple(a.time_ns, a.action) < std::tuple(b.time_ns, b.action);
    });
    Timeline result;
    for (const Entry& entry : entries_) append(entry, result);
    return result;
  }

 private:
  // Adds blocks without tensor at once; notes the times of the others.
  void add_allocations() {
    const auto events = static_cast<int32_t>(tables_.events.size());
    for (const int32_t node : tree_.preorder) {
      if (node < events) continue;
      const auto row = static_cast<size_t>(node - events);
      if (tables_.allocations.action[row] == AllocationAction::kOutOfMemory) continue;
      const int32_t key = keys_.of_allocation[row];
      if (key == kUnknown) {
        add_unknown(row);
      } else if (tables_.allocations.size_bytes[row] > 0) {
        allocated_ns_[static_cast<size_t>(key)] = tables_.allocations.time_ns[row];
        was_allocated_[static_cast<size_t>(key)] = 1;
      } else {
        freed_ns_[static_cast<size_t>(key)] = tables_.allocations.time_ns[row];
      }
    }
  }

  void add_unknown(size_t row) {
    const Allocations& allocations = tables_.allocations;
    const int64_t bytes = allocations.size_bytes[row];
    const int64_t time_ns = allocations.time_ns[row];
    const int8_t type = allocations.identity.device_type[row];
    const int8_t index = allocations.identity.device_index[row];
    const Block block{allocations.address[row], type, index};
    const auto add = [&](int64_t when, Action action) {
      entries_.push_back({when, action, kUnknown, 0, magnitude(bytes), type, index});
    };
    if (bytes > 0) {
      add(time_ns, live_.insert(block).second ? Action::kCreate : Action::kIncrementVersion);
      return;
    }
    add(time_ns, Action::kDestroy);
    if (live_.erase(block) == 0) add(kBeforeRecording, Action::kPreexisting);
  }

  void add_preexisting() {
    for (size_t key = 0; key < keys_.size(); ++key) {
      const bool known = known_[static_cast<size_t>(flow_.version_offsets[key])] != 0;
      if (known && was_allocated_[key] == 0) add(kBeforeRecording, Action::kPreexisting, key, 0);
    }
  }

  void add_node(size_t node) {
    const FlowEdges& edges = flow_.edges;
    const int64_t start_ns = tree_.time_ns[static_cast<size_t>(flow_.node[node])];
    const auto end = static_cast<size_t>(flow_.edge_offsets[node + 1]);
    for (auto edge = static_cast<size_t>(flow_.edge_offsets[node]); edge < end; ++edge) {
      const auto key = static_cast<size_t>(edges.key[edge]);
      if (edges.is_allocation(edge)) {
        add(allocated_ns_[key], Action::kCreate, key, 0);
      } else if (edges.mutated[edge] != 0) {
        add(start_ns, Action::kIncrementVersion, key, edges.input_version[edge]);
      }
      if (edges.deleted[edge] != 0) add(freed_ns_[key], Action::kDestroy, key, last_version(key));
    }
  }

  int32_t last_version(size_t key) const {
    const auto first = static_cast<size_t>(flow_.version_offsets[key]);
    auto at = static_cast<size_t>(flow_.version_offsets[key + 1]) - 1;
    while (at > first && known_[at] == 0) --at;
    return static_cast<int32_t>(at - first);
  }

  void add(int64_t time_ns, Action action, size_t key, int32_t version) {
    entries_.push_back({time_ns, action, static_cast<int32_t>(key), version, keys_.size_bytes[key],
                        keys_.device_type[key], keys_.device_index[key]});
  }

  static void append(const Entry& entry, Timeline& result) {
    result.time_ns.push_back(entry.time_ns);
    result.action.push_back(static_cast<uint8_t>(entry.action));
    result.key.push_back(entry.key);
    result.version.push_back(entry.version);
    result.size_bytes.push_back(entry.size_bytes);
    result.device_type.push_back(entry.device_type);
    result.device_index.push_back(entry.device_index);
  }

  struct Block {
    uint64_t address;
    int8_t device_type, device_index;
    bool operator==(const Block&) const = default;
  };
  struct HashBlock {
    size_t operator()(const Block& block) const {
      return block.address * 0x9e3779b97f4a7c15ULL ^ static_cast<size_t>(block.device_index);
    }
  };

  const Tables& tables_;
  const TreeOrder& tree_;
  const TensorKeys& keys_;
  const DataFlow& flow_;
  const std::vector<uint8_t> known_;              // versions
  std::vector<int64_t> allocated_ns_, freed_ns_;  // of every key
  std::vector<uint8_t> was_allocated_;
  std::unordered_set<Block, HashBlock> live_;  // blocks without tensor
  std::vector<Entry> entries_;
};

}  // namespace

Timeline build_timeline(const Tables& tables, const TreeOrder& tree, const TensorKeys& keys,
                        const DataFlow& flow, const Categories& categories) {
  return TimelineBuilder(tables, tree, keys, flow, categories).build();
}

}  // namespace opscope::memory
