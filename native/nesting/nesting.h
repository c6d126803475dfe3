// Questions about a column of parents: who is the nearest of some ancestors, what a row has below it.
//
// Row i's parent is parents[i], or none where that is negative. A parent nearly always stands before its
// children, so one pass in the order of rows answers; rows whose parent stands after them are settled by
// walking up from them once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace opscope {
namespace nesting {

// Calls visit(row, parent) for every row, with its parent's before its own; `parent` is negative for none.
template <class Parent, class Visit>
void each_after_parent(const Parent* parents, size_t rows, Visit visit) {
  size_t in_order = 0;
  for (; in_order < rows; ++in_order) {  // as long as parents stand before their children: nearly always
    const Parent parent = parents[in_order];
    if (parent >= 0 && static_cast<size_t>(parent) >= in_order) break;
    visit(in_order, parent);
  }
  std::vector<bool> visited(in_order == rows ? 0 : rows);
  std::fill_n(visited.begin(), visited.empty() ? 0 : in_order, true);
  std::vector<size_t> waiting;  // a row and its ancestors, which are visited from the last to the first
  for (size_t first = in_order; first < rows; ++first) {
    for (size_t row = first; !visited[row]; row = static_cast<size_t>(parents[row])) {
      if (waiting.size() >= rows) throw std::invalid_argument("a row is its own ancestor");
      waiting.push_back(row);
      if (parents[row] < 0) break;
      if (static_cast<size_t>(parents[row]) >= rows) {
        throw std::out_of_range("a parent is no row of the table");
      }
    }
    for (; !waiting.empty(); waiting.pop_back()) {
      visit(waiting.back(), parents[waiting.back()]);
      visited[waiting.back()] = true;
    }
  }
}

// For every row the closest proper ancestor with `keep`, or -1.
template <class Parent, class Keep, class Found>
void nearest_ancestor(const Parent* parents, const Keep* keep, size_t rows, Found* found) {
  each_after_parent(parents, rows, [&](size_t row, Parent parent) {
    const auto outer = static_cast<size_t>(parent);
    found[row] = parent < 0 || keep[outer] ? std::max<Parent>(parent, -1) : found[outer];
  });
}

// For every row the furthest of itself and its ancestors with `keep`, or -1.
template <class Parent>
std::vector<Parent> outermost_ancestor(const Parent* parents, const bool* keep, size_t rows) {
  std::vector<Parent> found(rows);
  each_after_parent(parents, rows, [&](size_t row, Parent parent) {
    found[row] = parent < 0 ? -1 : found[static_cast<size_t>(parent)];
    if (found[row] < 0 && keep[row]) found[row] = static_cast<Parent>(row);
  });
  return found;
}

// How many ancestors every row has.
template <class Parent>
std::vector<int32_t> depths(const Parent* parents, size_t rows) {
  std::vector<int32_t> depth(rows);
  each_after_parent(parents, rows, [&](size_t row, Parent parent) {
    depth[row] = parent < 0 ? 0 : depth[static_cast<size_t>(parent)] + 1;
  });
  return depth;
}

// Every row's own value plus those of all its descendants.
template <class Parent>
std::vector<int64_t> subtree_sums(const Parent* parents, const int64_t* own, size_t rows) {
  std::vector<int64_t> total(own, own + rows);
  bool in_order = true;
  for (size_t row = 0; row < rows; ++row) in_order &= parents[row] < static_cast<Parent>(row);
  const auto add = [&](size_t row) {
    if (parents[row] < 0) return;
    int64_t& sum = total[static_cast<size_t>(parents[row])];
    sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(total[row]));
  };
  if (in_order) {
    for (size_t row = rows; row-- > 0;) add(row);
    return total;
  }
  std::vector<size_t> order;
  order.reserve(rows);
  each_after_parent(parents, rows, [&](size_t row, Parent) { order.push_back(row); });
  std::for_each(order.rbegin(), order.rend(), add);
  return total;
}

// Each row's value minus those of its direct children, of the children that are counted.
template <class Parent>
std::vector<int64_t> minus_children(const Parent* parents, const int64_t* value, const bool* counted,
                                    size_t rows) {
  std::vector<int64_t> rest(value, value + rows);
  for (size_t row = 0; row < rows; ++row) {
    const Parent parent = parents[row];
    if (parent < 0 || (counted != nullptr && !counted[row])) continue;
    if (static_cast<size_t>(parent) >= rows) throw std::out_of_range("a parent is no row of the table");
    int64_t& left = rest[static_cast<size_t>(parent)];
    left = static_cast<int64_t>(static_cast<uint64_t>(left) - static_cast<uint64_t>(value[row]));
  }
  return rest;
}

}  // namespace nesting
}  // namespace opscope
