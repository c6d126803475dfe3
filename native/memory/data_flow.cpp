#include <algorithm>
#include <numeric>

#include "memory/accounts.h"

namespace opscope::memory {

Access SignatureAccess::of(int32_t event, int16_t argument) const {
  if (event < 0 || argument < 0 || static_cast<size_t>(event) >= of_event.size) return Access::kNoTensor;
  const int32_t signature = of_event[static_cast<size_t>(event)];
  if (signature < 0) return Access::kNoTensor;
  const int64_t at = offsets[static_cast<size_t>(signature)] + argument;
  if (at >= offsets[static_cast<size_t>(signature) + 1]) return Access::kNoTensor;
  return static_cast<Access>(access[static_cast<size_t>(at)]);
}

namespace {

// Rows of a table by event: those of event i are rows[offsets[i], offsets[i + 1]).
struct RowsOfEvents {
  std::vector<int32_t> offsets;
  std::vector<int32_t> rows;

  RowsOfEvents(const ColumnView<int32_t>& event, const std::vector<int32_t>& key, size_t events)
      : offsets(events + 1) {
    const auto counts = [&](size_t row) { return key[row] != kUnknown; };
    for (size_t row = 0; row < key.size(); ++row) {
      if (counts(row)) ++offsets[static_cast<size_t>(event[row]) + 1];
    }
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    rows.resize(static_cast<size_t>(offsets.back()));
    std::vector<int32_t> next(offsets.begin(), offsets.end() - 1);
    for (size_t row = 0; row < key.size(); ++row) {
      if (counts(row))
        rows[static_cast<size_t>(next[static_cast<size_t>(event[row])]++)] = static_cast<int32_t>(row);
    }
  }
};

// Edges of the current node, by key.
class NodeEdges {
 public:
  explicit NodeEdges(size_t keys) : index_(keys, kUnknown) {}

  struct Edge {
    int32_t key;
    bool reads = false, writes = false, unclear = false, allocated = false, deleted = false;

    bool mutated() const { return writes || (unclear && !reads); }
  };

  Edge& at(int32_t key) {
    int32_t& index = index_[static_cast<size_t>(key)];
    if (index == kUnknown) {
      index = static_cast<int32_t>(edges_.size());
      edges_.push_back({key});
    }
    return edges_[static_cast<size_t>(index)];
  }
  std::vector<Edge>& in_order() {
    for (const Edge& edge : edges_) index_[static_cast<size_t>(edge.key)] = kUnknown;
    std::sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.key < b.key; });
    return edges_;
  }
  void clear() { edges_.clear(); }

 private:
  std::vector<int32_t> index_;
  std::vector<Edge> edges_;
};

class FlowBuilder {
 public:
  FlowBuilder(const Tables& tables, const TreeOrder& tree, const SignatureAccess& signatures,
              const TensorKeys& keys)
      : tables_(tables),
        tree_(tree),
        signatures_(signatures),
        keys_(keys),
        events_(static_cast<int32_t>(tables.events.size())),
        tensors_(tables.tensors.event, keys.of_tensor, tables.events.size()),
        edges_(keys.size()),
        version_(keys.size(), 0) {}

  DataFlow build() {
    find_nodes();
    flow_.edge_offsets.push_back(0);
    for (const int32_t node : flow_.node) add_node(node);
    std::vector<int32_t> last(keys_.size(), 0);
    for (size_t edge = 0; edge < flow_.edges.size(); ++edge) {
      int32_t& version = last[static_cast<size_t>(flow_.edges.key[edge])];
      version = std::max({version, flow_.edges.input_version[edge],
                          flow_.edges.is_output(edge) ? flow_.edges.output_version(edge) : 0});
    }
    flow_.version_offsets.assign(1, 0);
    for (const int32_t version : last)
      flow_.version_offsets.push_back(flow_.version_offsets.back() + version + 1);
    return std::move(flow_);
  }

 private:
  bool is_leaf(int32_t node) const {
    if (node >= events_)
      return tables_.allocations.action[static_cast<size_t>(node - events_)] !=
             AllocationAction::kOutOfMemory;
    if (!signatures_.is_operator(node)) return false;
    const auto signature = static_cast<size_t>(signatures_.of_event[static_cast<size_t>(node)]);
    return signatures_.has_schema[signature] != 0 || is_backward(node);
  }
  bool is_backward(int32_t event) const {
    return signatures_.is_operator(event) &&
           tables_.events.scope[static_cast<size_t>(event)] == RecordScope::kBackwardFunction;
  }

  // The outermost leaves of the tree, in order of time.
  void find_nodes() {
    std::vector<uint8_t> in_backward(static_cast<size_t>(events_), 0);
    const auto inherited = [&](int32_t node) {
      const int32_t parent = tree_.parent[static_cast<size_t>(node)];
      return parent >= 0 && in_backward[static_cast<size_t>(parent)] != 0;
    };
    std::vector<std::pair<int32_t, uint8_t>> found;
    for (size_t i = 0; i < tree_.preorder.size();) {
      const int32_t node = tree_.preorder[i];
      const bool backward = inherited(node) || (node < events_ && is_backward(node));
      if (node < events_) in_backward[static_cast<size_t>(node)] = backward ? 1 : 0;
      if (is_leaf(node)) {
        found.emplace_back(node, backward ? 1 : 0);
        i = static_cast<size_t>(tree_.end[static_cast<size_t>(node)]);
      } else {
        ++i;
      }
    }
    std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) {
      return tree_.time_ns[static_cast<size_t>(a.first)] < tree_.time_ns[static_cast<size_t>(b.first)];
    });
    for (const auto& [node, backward] : found) {
      flow_.node.push_back(node);
      flow_.in_backward.push_back(backward);
    }
  }

  void add_node(int32_t node) {
    edges_.clear();
    const auto begin = static_cast<size_t>(tree_.position[static_cast<size_t>(node)]);
    const auto end = static_cast<size_t>(tree_.end[static_cast<size_t>(node)]);
    for (size_t i = begin; i < end; ++i) {
      const int32_t inner = tree_.preorder[i];
      inner < events_ ? add_arguments(inner) : add_allocation(inner - events_);
    }
    for (const NodeEdges::Edge& edge : edges_.in_order()) add_edge(edge);
    flow_.edge_offsets.push_back(static_cast<int64_t>(flow_.edges.size()));
  }

  void add_arguments(int32_t event) {
    const auto begin = static_cast<size_t>(tensors_.offsets[static_cast<size_t>(event)]);
    const auto end = static_cast<size_t>(tensors_.offsets[static_cast<size_t>(event) + 1]);
    for (size_t i = begin; i < end; ++i) {
      const auto row = static_cast<size_t>(tensors_.rows[i]);
      NodeEdges::Edge& edge = edges_.at(keys_.of_tensor[row]);
      const Access access = signatures_.of(event, tables_.tensors.argument[row]);
      edge.reads |= access == Access::kReads;
      edge.writes |= access == Access::kWrites;
      edge.unclear |= access == Access::kUnclear;
    }
  }

  void add_allocation(int32_t row) {
    const int32_t key = keys_.of_allocation[static_cast<size_t>(row)];
    const int64_t bytes = tables_.allocations.size_bytes[static_cast<size_t>(row)];
    if (key == kUnknown ||
        tables_.allocations.action[static_cast<size_t>(row)] == AllocationAction::kOutOfMemory)
      return;
    if (bytes > 0) edges_.at(key).allocated = true;
    if (bytes < 0) edges_.at(key).deleted = true;
  }

  void add_edge(const NodeEdges::Edge& edge) {
    int32_t& version = version_[static_cast<size_t>(edge.key)];
    const bool mutated = edge.mutated() && !edge.deleted;
    flow_.edges.key.push_back(edge.key);
    flow_.edges.input_version.push_back(edge.allocated ? -1 : version);
    flow_.edges.mutated.push_back(mutated ? 1 : 0);
    flow_.edges.deleted.push_back(edge.deleted ? 1 : 0);
    if (mutated && !edge.allocated) ++version;
  }

  const Tables& tables_;
  const TreeOrder& tree_;
  const SignatureAccess& signatures_;
  const TensorKeys& keys_;
  const int32_t events_;
  const RowsOfEvents tensors_;
  NodeEdges edges_;
  std::vector<int32_t> version_;  // of every key, at the current node
  DataFlow flow_;
};

}  // namespace

std::vector<uint8_t> find_inputs(const Tables& tables, const SignatureAccess& signatures) {
  std::vector<uint8_t> is_input(tables.tensors.size(), 0);
  for (size_t row = 0; row < is_input.size(); ++row) {
    const Tensors& tensors = tables.tensors;
    is_input[row] = tensors.role[row] == Role::kInput && tensors.shapes.dtype[row] >= 0 &&
                    signatures.of(tensors.event[row], tensors.argument[row]) != Access::kNoTensor;
  }
  return is_input;
}

DataFlow trace_flow(const Tables& tables, const TreeOrder& tree, const SignatureAccess& signatures,
                    const TensorKeys& keys) {
  return FlowBuilder(tables, tree, signatures, keys).build();
}

}  // namespace opscope::memory
