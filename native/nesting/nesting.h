// Queries on a column of parents: nearest ancestors, and sums over descendants.
//
// Row i's parent is parents[i]; negative for none. Parents nearly always precede their children, so one pass
// in row order suffices; other rows are visited after walking up once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace opscope {
namespace nesting {

// Calls visit(row, parent) for every row, parents first; `parent` is negative for none.
template <class Parent, class Visit>
void each_after_parent(const Parent* parents, size_t rows, Visit visit) {
  size_t in_order = 0;
  for (; in_order < rows; ++in_order) {  // while parents precede their children: nearly always
    const Parent parent = parents[in_order];
    if (parent >= 0 && static_cast<size_t>(parent) >= in_order) break;
    visit(in_order, parent);
  }
  std::vector<bool> visited(in_order == rows ? 0 : rows);
  std::fill_n(visited.begin(), visited.empty() ? 0 : in_order, true);
  std::vector<size_t> waiting;  // a row and its ancestors, visited from last to first
  for (size_t first = in_order; first < rows; ++first) {
    for (size_t row = first; !visited[row]; row = static_cast<size_t>(parents[row])) {
      if (waiting.size() >= rows) throw std::invalid_argument("a row is its own ancestor");
      waiting.push_back(row);
      if (parents[row] < 0) break;
      if (static_cast<size_t>(parents[row]) >= rows) {
        throw std::out_of_range("a parent is not a row of the table");
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

// For every row the furthest with `keep` among itself and its ancestors, or -1.
template <class Parent>
std::vector<Parent> outermost_ancestor(const Parent* parents, const bool* keep, size_t rows) {
  std::vector<Parent> found(rows);
  each_after_parent(parents, rows, [&](size_t row, Parent parent) {
    found[row] = parent < 0 ? -1 : found[static_cast<size_t>(parent)];
    if (found[row] < 0 && keep[row]) found[row] = static_cast<Parent>(row);
  });
  return found;
}

// Number of ancestors of every row.
template <class Parent>
std::vector<int32_t> depths(const Parent* parents, size_t rows) {
  std::vector<int32_t> depth(rows);
  each_after_parent(parents, rows, [&](size_t row, Parent parent) {
    depth[row] = parent < 0 ? 0 : depth[static_cast<size_t>(parent)] + 1;
  });
  return depth;
}

// Sum of every row's value and those of all descendants.
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

// Each row's value minus the values of its counted direct children.
template <class Parent>
std::vector<int64_t> minus_children(const Parent* parents, const int64_t* value, const bool* counted,
                                    size_t rows) {
  std::vector<int64_t> rest(value, value + rows);
  for (size_t row = 0; row < rows; ++row) {
    const Parent parent = parents[row];
    if (parent < 0 || (counted != nullptr && !counted[row])) continue;
    if (static_cast<size_t>(parent) >= rows) throw std::out_of_range("a parent is not a row of the table");
    int64_t& left = rest[static_cast<size_t>(parent)];
    left = static_cast<int64_t>(static_cast<uint64_t>(left) - static_cast<uint64_t>(value[row]));
  }
  return rest;
}

}  // namespace nesting
}  // namespace opscope
