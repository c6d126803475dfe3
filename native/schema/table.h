// Columns of the tables in schema/tables.h, and operations on any of these tables.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace opscope {

// Rows with any number of values.
struct ListColumn {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> values;
  void end_row() { offsets.push_back(static_cast<int64_t>(values.size())); }
  void reserve(size_t rows) { offsets.reserve(rows + 1); }
};

// One byte per row, 0 or 1: Python gets booleans.
struct FlagColumn : std::vector<uint8_t> {
  using std::vector<uint8_t>::vector;
};

template <typename T>
size_t rows_of(const std::vector<T>& column) {
  return column.size();
}
inline size_t rows_of(const ListColumn& column) { return column.offsets.size() - 1; }

// A column of any kind, for operations on every column of a table: compiled once rather than per table.
struct AnyColumn {
  enum class Kind : uint8_t {
    kInt8,
    kInt16,
    kInt32,
    kInt64,
    kUint8,
    kUint16,
    kUint32,
    kUint64,
    kFlag,
    kList
  };

  const char* name = nullptr;
  void* column = nullptr;
  Kind kind = Kind::kInt8;
  bool may_lack = false;

  // Calls `visit` with the column in its own type.
  template <typename Visit>
  auto as_itself(Visit&& visit) const {
    switch (kind) {
      case Kind::kInt8:
        return visit(*static_cast<std::vector<int8_t>*>(column));
      case Kind::kInt16:
        return visit(*static_cast<std::vector<int16_t>*>(column));
      case Kind::kInt32:
        return visit(*static_cast<std::vector<int32_t>*>(column));
      case Kind::kInt64:
        return visit(*static_cast<std::vector<int64_t>*>(column));
      case Kind::kUint8:
        return visit(*static_cast<std::vector<uint8_t>*>(column));
      case Kind::kUint16:
        return visit(*static_cast<std::vector<uint16_t>*>(column));
      case Kind::kUint32:
        return visit(*static_cast<std::vector<uint32_t>*>(column));
      case Kind::kUint64:
        return visit(*static_cast<std::vector<uint64_t>*>(column));
      case Kind::kFlag:
        return visit(*static_cast<FlagColumn*>(column));
      case Kind::kList:
        break;
    }
    return visit(*static_cast<ListColumn*>(column));
  }
};

constexpr AnyColumn::Kind kind_of(const FlagColumn*) { return AnyColumn::Kind::kFlag; }
constexpr AnyColumn::Kind kind_of(const ListColumn*) { return AnyColumn::Kind::kList; }
template <typename T>
constexpr AnyColumn::Kind kind_of(const std::vector<T>*) {
  static_assert(std::is_integral_v<T>);
  constexpr int first =
      static_cast<int>(std::is_signed_v<T> ? AnyColumn::Kind::kInt8 : AnyColumn::Kind::kUint8);
  return static_cast<AnyColumn::Kind>(first + std::bit_width(sizeof(T)) - 1);
}

// Columns of one table, in schema order.
class AnyTable {
 public:
  template <typename Table>
  explicit AnyTable(Table& table) : name_(Table::kTable) {
    table.for_each_column([&](const char* name, auto& column, bool may_lack) {
      columns_[size_++] = {name, &column, kind_of(&column), may_lack};
    });
    static_assert(Table::kColumns <= kMost);
  }

  const char* name() const { return name_; }
  const AnyColumn* begin() const { return columns_; }
  const AnyColumn* end() const { return columns_ + size_; }

 private:
  static constexpr size_t kMost = 64;
  const char* name_;
  size_t size_ = 0;
  AnyColumn columns_[kMost];
};

// Throws unless every column has a value for every row; optional columns may be empty. Detects a decoder that
// omits a column before a reader indexes past its end.
inline void check_lengths(const AnyTable& table) {
  const char* first = nullptr;
  size_t rows = 0;
  for (const AnyColumn& column : table) {
    const size_t found = column.as_itself([](const auto& itself) { return rows_of(itself); });
    if (column.may_lack && found == 0) continue;
    if (first == nullptr) {
      first = column.name;
      rows = found;
    } else if (found != rows) {
      throw std::logic_error(std::string("the decoder gave ") + table.name() + "." + column.name + " " +
                             std::to_string(found) + " rows and " + table.name() + "." + first + " " +
                             std::to_string(rows) + "; this is a fault of opscope's, please report it");
    }
  }
}

}  // namespace opscope
