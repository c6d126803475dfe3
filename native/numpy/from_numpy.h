// Columns from NumPy arrays.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <utility>

#include "numpy/column_source.h"

namespace opscope {

namespace nb = nanobind;

class NumpyColumns final : public ColumnSource {
 public:
  explicit NumpyColumns(nb::dict arrays) : arrays_(std::move(arrays)) {}

 private:
  bool has(const std::string& name) const override { return arrays_.contains(name.c_str()); }
  Untyped find(const std::string& name, Type type) const override {
    if (!has(name)) return {};
    nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu> array;
    const auto type_of = [&array] {
      const auto code = static_cast<nb::dlpack::dtype_code>(array.dtype().code);
      const bool is_number = code == nb::dlpack::dtype_code::Int || code == nb::dlpack::dtype_code::UInt;
      const bool is_truth = code == nb::dlpack::dtype_code::Bool;
      const size_t bytes = is_number || is_truth ? array.dtype().bits / 8u : 0;
      return Type{is_truth, code == nb::dlpack::dtype_code::Int, bytes};
    };
    if (!nb::try_cast(arrays_[name.c_str()], array, false) || type_of() != type) {
      throw nb::type_error(("column " + name + " has the wrong dtype or shape").c_str());
    }
    return {array.data(), array.stride(0), array.size()};
  }

  nb::dict arrays_;
};

}  // namespace opscope
