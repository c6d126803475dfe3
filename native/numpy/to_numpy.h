// Columns as Python gets them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <utility>
#include <vector>

namespace opscope {

// Hands a column to NumPy without copying it.
template <typename T>
nanobind::object to_array(std::vector<T>&& column) {
  auto owned = std::make_unique<std::vector<T>>(std::move(column));
  T* const data = owned->data();
  const size_t size = owned->size();
  nanobind::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>(data, {size}, owner));
}

}  // namespace opscope
