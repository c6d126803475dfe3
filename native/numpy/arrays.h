// Arrays that native functions take from Python one by one.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <span>

namespace opscope {

template <class T>
using Numbers = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <class T>
std::span<const T> span_of(const Numbers<T>& column) {
  return {column.data(), column.size()};
}

inline void check_length(size_t size, size_t rows) {
  if (size != rows) throw nanobind::value_error("columns of one table have different lengths");
}

}  // namespace opscope
