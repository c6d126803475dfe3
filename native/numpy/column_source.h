// Columns by name, checked once so that readers need no checks, and the structs made of them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "numpy/column_view.h"

namespace opscope {

// Columns by name, such as "events.start_ns", from any memory.
class ColumnSource {
 public:
  // A column whose type is known at its use, so that the look-up is compiled once.
  struct Untyped {
    const void* data = nullptr;
    ptrdiff_t stride = 1;
    size_t size = 0;
  };
  struct Type {
    bool is_truth;
    bool is_signed;
    size_t bytes;

    bool operator==(const Type&) const = default;
  };
  template <class T>
  static constexpr Type kType{std::same_as<T, bool>, std::is_signed_v<T>, sizeof(T)};

  // Must have `rows` elements; a missing column is empty if `rows` is 0.
  template <class T>
  ColumnView<T> get(const std::string& name, size_t rows) const {
    return as<T>(of_length(name, kType<T>, rows));
  }
  // Any length; empty if missing.
  template <class T>
  ColumnView<T> any(const std::string& name) const {
    return as<T>(find(name, kType<T>));
  }
  // `rows` elements, or missing.
  template <class T>
  ColumnView<T> optional(const std::string& name, size_t rows) const {
    return has(name) ? get<T>(name, rows) : ColumnView<T>{};
  }
  // Any length; every element is in [lowest, count), because readers index without checks.
  template <class T>
  ColumnView<T> indices(const std::string& name, size_t count, int64_t lowest = 0) const {
    return checked(name, any<T>(name), count, lowest);
  }
  // `rows` elements in [lowest, count); with `lowest` -1, -1 means none.
  template <class T>
  ColumnView<T> indices(const std::string& name, size_t rows, size_t count, int64_t lowest) const {
    return checked(name, get<T>(name, rows), count, lowest);
  }
  // A ragged column of `rows` rows. Its offsets are checked when they are used.
  ListView list(const std::string& name, size_t rows) const;
  // Rows of the `children` table by row of the `parents` table; if missing, none.
  Rows rows(const std::string& name, size_t parents, size_t children) const;
  // Offsets and bytes of a text table: name i is bytes[offsets[i], offsets[i + 1]).
  std::pair<ColumnView<int64_t>, ColumnView<uint8_t>> texts(const std::string& name) const;

 protected:
  ~ColumnSource() = default;
  virtual bool has(const std::string& name) const = 0;
  // Empty if missing; throws if the elements have another type.
  virtual Untyped find(const std::string& name, Type type) const = 0;

 private:
  Untyped of_length(const std::string& name, Type type, size_t rows) const;

  template <class T>
  static ColumnView<T> as(const Untyped& column) {
    return {static_cast<const T*>(column.data), column.stride, column.size};
  }

  [[noreturn]] static void fail(const std::string& name, const std::string& what);

  template <class T>
  static ColumnView<T> checked(const std::string& name, ColumnView<T> column, size_t count, int64_t lowest) {
    const auto most = static_cast<int64_t>(count);
    bool sound = true;
    for (size_t i = 0; i < column.size; ++i) {
      const auto value = static_cast<int64_t>(column[i]);
      sound &= value >= lowest && value < most;
      if (column.stride == 0) break;  // one value for all rows
    }
    if (!sound) fail(name, "row numbers that do not exist");
    return column;
  }
};

// Base of structs of a table's columns: their members are initialised by column name.
class TableColumns {
 public:
  TableColumns(const ColumnSource& from, std::string table, size_t rows)
      : from_(&from), table_(std::move(table)), rows_(rows) {}

  size_t size() const { return rows_; }

 protected:
  struct Column {
    const TableColumns& table;
    const char* name;

    template <class T>
    operator ColumnView<T>() const {
      return table.from_->get<T>(table.at(name), table.rows_);
    }
    operator ListView() const { return table.from_->list(table.at(name), table.rows_); }
  };
  struct OptionalColumn {
    const TableColumns& table;
    const char* name;

    template <class T>
    operator ColumnView<T>() const {
      return table.from_->optional<T>(table.at(name), table.rows_);
    }
  };

  Column column(const char* name) const { return {*this, name}; }
  OptionalColumn optional(const char* name) const { return {*this, name}; }
  template <class T>
  ColumnView<T> indices(const char* name, size_t count, int64_t lowest = 0) const {
    return from_->indices<T>(at(name), rows_, count, lowest);
  }
  std::string at(const char* name) const { return table_ + "." + name; }

 private:
  const ColumnSource* from_;
  std::string table_;
  size_t rows_;
};

}  // namespace opscope
