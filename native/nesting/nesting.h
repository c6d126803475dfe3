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

// Sets answer[i] for every row to from_parent(parent), or to `none` without a parent. from_parent may
// read the parent's own answer where `needs_answer(parent)`; it is there by then.
template <class Parent, class Answer, class NeedsAnswer, class FromParent>
void settle(const Parent* parents, size_t rows, Answer* answer, Answer none, NeedsAnswer needs_answer,
            FromParent from_parent) {
  size_t in_order = 0;
  for (; in_order < rows; ++in_order) {  // as long as parents stand before their children: nearly always
    const Parent parent = parents[in_order];
    if (parent >= 0 && static_cast<size_t>(parent) >= in_order) break;
    answer[in_order] = parent < 0 ? none : from_parent(static_cast<size_t>(parent));
  }
  if (in_order == rows) return;
  std::vector<bool> settled(rows);
  std::fill_n(settled.begin(), in_order, true);
  std::vector<size_t> waiting;
  for (size_t first = in_order; first < rows; ++first) {
    size_t row = first;
    while (!settled[row]) {
      const Parent parent = parents[row];
      if (parent >= 0 && static_cast<size_t>(parent) >= rows) {
        throw std::out_of_range("a parent is no row of the table");
      }
      if (parent >= 0 && needs_answer(static_cast<size_t>(parent)) && !settled[static_cast<size_t>(parent)]) {
        if (waiting.size() >= rows) throw std::invalid_argument("a row is its own ancestor");
        waiting.push_back(row);
        row = static_cast<size_t>(parent);
        continue;
      }
      answer[row] = parent < 0 ? none : from_parent(static_cast<size_t>(parent));
      settled[row] = true;
      if (waiting.empty()) break;
      row = waiting.back();
      waiting.pop_back();
    }
  }
}

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
template <class Parent>
std::vector<Parent> nearest_ancestor(const Parent* parents, const bool* keep, size_t rows) {
  std::vector<Parent> found(rows);
  settle<Parent, Parent>(
      parents, rows, found.data(), -1, [&](size_t parent) { return !keep[parent]; },
      [&](size_t parent) { return keep[parent] ? static_cast<Parent>(parent) : found[parent]; });
  return found;
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
  for (size_t row = 0; row < rows; ++row) {
    if (parents[row] >= 0 && static_cast<size_t>(parents[row]) >= rows) {
      throw std::out_of_range("a parent is no row of the table");
    }
    in_order = in_order && (parents[row] < 0 || static_cast<size_t>(parents[row]) < row);
  }
  const auto add = [&](size_t row) {
    if (parents[row] < 0) return;
    int64_t& sum = total[static_cast<size_t>(parents[row])];
    sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(total[row]));
  };
  if (in_order) {
    for (size_t row = rows; row-- > 0;) add(row);
    return total;
  }
  // The deepest first: counted, then laid out by depth.
  const std::vector<int32_t> depth = depths(parents, rows);
  std::vector<size_t> begin;
  for (const int32_t d : depth) {
    if (static_cast<size_t>(d) + 2 > begin.size()) begin.resize(static_cast<size_t>(d) + 2);
    ++begin[static_cast<size_t>(d) + 1];
  }
  for (size_t d = 1; d < begin.size(); ++d) begin[d] += begin[d - 1];
  std::vector<size_t> by_depth(rows);
  for (size_t row = 0; row < rows; ++row) by_depth[begin[static_cast<size_t>(depth[row])]++] = row;
  for (size_t i = rows; i-- > 0;) add(by_depth[i]);
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
