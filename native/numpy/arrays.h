// Arrays as arguments of native functions.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace opscope {

template <class T>
using Numbers = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <class T>
std::span<const T> span_of(const Numbers<T>& column) {
  return {column.data(), column.size()};
}

template <class... Columns>
void check_lengths(size_t rows, const Columns&... columns) {
  if (((columns.size() != rows) || ...)) {
    throw nanobind::value_error("columns of one table have different lengths");
  }
}

// Whether all elements are in [lowest, count).
template <class T>
void check_between(const Numbers<T>& column, int64_t lowest, size_t count) {
  const auto least = static_cast<T>(std::max<int64_t>(lowest, std::numeric_limits<T>::min()));
  const auto most =
      static_cast<T>(std::min<int64_t>(static_cast<int64_t>(count) - 1, std::numeric_limits<T>::max()));
  // Without an early exit and with an accumulator of the element's width, the compiler vectorises the loop.
  T outside = 0;
  for (const T one : span_of(column)) {
    outside |= static_cast<T>(static_cast<int>(one < least) | static_cast<int>(one > most));
    if (sizeof(T) == sizeof(int64_t) && outside != 0) break;
  }
  if (outside != 0) throw nanobind::value_error("events refer to rows that do not exist");
}

}  // namespace opscope
