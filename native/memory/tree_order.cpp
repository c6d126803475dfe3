#include <algorithm>
#include <numeric>

#include "memory/accounts.h"

namespace opscope::memory {

namespace {

void read_nodes(const Tables& tables, TreeOrder& tree) {
  const auto events = static_cast<int32_t>(tables.events.size());
  const auto add = [&](int32_t parent, int64_t time_ns) {
    tree.parent.push_back(parent >= 0 && parent < events ? parent : -1);
    tree.time_ns.push_back(time_ns);
  };
  const size_t nodes = tables.events.size() + tables.allocations.size();
  tree.parent.reserve(nodes);
  tree.time_ns.reserve(nodes);
  for (size_t i = 0; i < tables.events.size(); ++i) add(tables.events.parent[i], tables.events.start_ns[i]);
  for (size_t i = 0; i < tables.allocations.size(); ++i) {
    add(tables.allocations.event[i], tables.allocations.time_ns[i]);
  }
}

// Nodes in order of time, events before allocations of the same nanosecond.
std::vector<int32_t> order_by_time(const TreeOrder& tree, size_t events) {
  std::vector<int32_t> nodes(tree.time_ns.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  const auto earlier = [&](int32_t a, int32_t b) { return tree.time_ns[a] < tree.time_ns[b]; };
  const auto middle = nodes.begin() + static_cast<ptrdiff_t>(events);
  // opscope writes both tables in order of time; only other files need sorting.
  if (!std::is_sorted(nodes.begin(), middle, earlier)) std::stable_sort(nodes.begin(), middle, earlier);
  if (!std::is_sorted(middle, nodes.end(), earlier)) std::stable_sort(middle, nodes.end(), earlier);
  std::inplace_merge(nodes.begin(), middle, nodes.end(), earlier);
  return nodes;
}

// Rows of the children of node i: rows[offsets[i], offsets[i + 1]); those of roots are at the end.
struct Children {
  std::vector<int32_t> offsets;
  std::vector<int32_t> rows;
};

Children group_children(const TreeOrder& tree, const std::vector<int32_t>& by_time) {
  const size_t nodes = by_time.size();
  const auto slot = [&](int32_t node) {
    return tree.parent[node] < 0 ? nodes : static_cast<size_t>(tree.parent[node]);
  };
  Children children{std::vector<int32_t>(nodes + 2), std::vector<int32_t>(nodes)};
  for (const int32_t node : by_time) ++children.offsets[slot(node) + 1];
  std::partial_sum(children.offsets.begin(), children.offsets.end(), children.offsets.begin());
  std::vector<int32_t> next(children.offsets.begin(), children.offsets.end() - 1);
  for (const int32_t node : by_time) children.rows[next[slot(node)]++] = node;
  return children;
}

void walk(const Children& children, TreeOrder& tree) {
  std::vector<int32_t> pending;
  const auto push_children = [&](size_t node) {
    const auto begin = children.rows.begin() + children.offsets[node];
    const auto end = children.rows.begin() + children.offsets[node + 1];
    pending.insert(pending.end(), std::reverse_iterator(end), std::reverse_iterator(begin));
  };
  push_children(tree.parent.size());
  while (!pending.empty()) {
    const int32_t node = pending.back();
    pending.pop_back();
    tree.position[node] = static_cast<int32_t>(tree.preorder.size());
    tree.preorder.push_back(node);
    push_children(static_cast<size_t>(node));
  }
}

}  // namespace

TreeOrder order_tree(const Tables& tables) {
  TreeOrder tree;
  read_nodes(tables, tree);
  const size_t nodes = tree.parent.size();
  tree.position.assign(nodes, -1);
  tree.preorder.reserve(nodes);
  walk(group_children(tree, order_by_time(tree, tables.events.size())), tree);
  std::vector<int32_t> size(nodes, 1);
  tree.end.assign(nodes, -1);
  for (auto node = tree.preorder.rbegin(); node != tree.preorder.rend(); ++node) {
    tree.end[*node] = tree.position[*node] + size[*node];
    if (tree.parent[*node] >= 0) size[tree.parent[*node]] += size[*node];
  }
  return tree;
}

}  // namespace opscope::memory
