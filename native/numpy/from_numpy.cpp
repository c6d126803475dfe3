#include "numpy/from_numpy.h"

namespace opscope {

NumpyColumns::Untyped NumpyColumns::of_any_length(ColumnName name, nb::dlpack::dtype dtype) const {
  if (!arrays_.contains(name.text)) return {};
  nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu> array;
  if (!nb::try_cast(arrays_[name.text], array, false) || array.dtype() != dtype) {
    throw nb::type_error(("column " + name.with(" has the wrong dtype or shape")).c_str());
  }
  return {array.data(), array.stride(0), array.size()};
}

NumpyColumns::Untyped NumpyColumns::of_length(ColumnName name, nb::dlpack::dtype dtype, size_t rows) const {
  const Untyped column = of_any_length(name, dtype);
  if (column.size == rows) return column;
  throw nb::value_error(("column " + name.with(" has ") + std::to_string(column.size) + " rows, expected " +
                         std::to_string(rows))
                            .c_str());
}

ListView NumpyColumns::list(ColumnName name, size_t rows) const {
  const std::string offsets = name.with(".offsets");
  const std::string values = name.with(".values");
  const ListView lists{any<int64_t>(offsets), any<int64_t>(values)};
  if (lists.offsets.size != rows + 1 && lists.offsets.size != 0) fail(offsets, "the wrong length");
  if (lists.values.size > 1 && lists.values.stride != 1) fail(values, "gaps between its values");
  return lists;
}

Rows NumpyColumns::rows(ColumnName name, size_t parents, size_t children) const {
  const Rows rows{optional<int64_t>(name, parents + 1)};
  int64_t before = 0;
  for (size_t i = 0; i < rows.offsets.size; ++i) {
    const int64_t offset = rows.offsets[i];
    if (offset < before || static_cast<size_t>(offset) > children) fail(name, "offsets out of order");
    before = offset;
  }
  return rows;
}

std::pair<ColumnView<int64_t>, ColumnView<uint8_t>> NumpyColumns::texts(ColumnName name) const {
  const auto bytes = any<uint8_t>(name.with(".bytes"));
  if (bytes.size > 1 && bytes.stride != 1) fail(name.with(".bytes"), "gaps between its bytes");
  const std::string at = name.with(".offsets");
  const size_t offsets = any<int64_t>(at).size;
  if (offsets == 0) return {{}, bytes};
  return {rows(at, offsets - 1, bytes.size).offsets, bytes};
}

void NumpyColumns::fail(ColumnName name, const char* what) {
  throw nb::value_error(("column " + name.with(" has ") + what).c_str());
}

}  // namespace opscope
