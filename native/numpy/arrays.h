// Arrays that native functions take from Python one by one, and how they hand back what they make of them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <span>
#include <utility>

#include "interpreter/without_gil.h"
#include "numpy/to_numpy.h"

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

// What `work` makes while other threads run Python.
template <class Work>
nanobind::object array_without_gil(Work work) {
  auto made = [&] {
    const WithoutGil without_gil;
    return work();
  }();
  return to_array(std::move(made));
}

}  // namespace opscope
