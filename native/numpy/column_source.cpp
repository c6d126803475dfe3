#include "numpy/column_source.h"

#include <stdexcept>

namespace opscope {

ColumnSource::Untyped ColumnSource::of_length(const std::string& name, Type type, size_t rows) const {
  const Untyped column = find(name, type);
  if (column.size != rows) {
    fail(name, std::to_string(column.size) + " rows, expected " + std::to_string(rows));
  }
  return column;
}

ListView ColumnSource::list(const std::string& name, size_t rows) const {
  const std::string offsets = name + ".offsets";
  const std::string values = name + ".values";
  const ListView lists{any<int64_t>(offsets), any<int64_t>(values)};
  if (lists.offsets.size != rows + 1 && lists.offsets.size != 0) fail(offsets, "the wrong length");
  if (lists.values.size > 1 && lists.values.stride != 1) fail(values, "gaps between its values");
  return lists;
}

Rows ColumnSource::rows(const std::string& name, size_t parents, size_t children) const {
  const Rows rows{optional<int64_t>(name, parents + 1)};
  int64_t before = 0;
  for (size_t i = 0; i < rows.offsets.size; ++i) {
    const int64_t offset = rows.offsets[i];
    if (offset < before || static_cast<size_t>(offset) > children) fail(name, "offsets out of order");
    before = offset;
  }
  return rows;
}

std::pair<ColumnView<int64_t>, ColumnView<uint8_t>> ColumnSource::texts(const std::string& name) const {
  const auto bytes = any<uint8_t>(name + ".bytes");
  if (bytes.size > 1 && bytes.stride != 1) fail(name + ".bytes", "gaps between its bytes");
  const std::string at = name + ".offsets";
  const size_t offsets = any<int64_t>(at).size;
  if (offsets == 0) return {{}, bytes};
  return {rows(at, offsets - 1, bytes.size).offsets, bytes};
}

void ColumnSource::fail(const std::string& name, const std::string& what) {
  throw std::invalid_argument("column " + name + " has " + what);
}

}  // namespace opscope
