// Columns by name, checked once, so that what reads them need not; and the structs that are made of them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "numpy/column_view.h"

namespace opscope {

// Columns by name, such as "events.start_ns", wherever they lie.
class ColumnSource {
 public:
  // A column of a type that is known where it is used: what finds columns is compiled once.
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

  // Must have `rows` elements. A column that is not given is empty if `rows` is 0.
  template <class T>
  ColumnView<T> get(const std::string& name, size_t rows) const {
    return as<T>(of_length(name, kType<T>, rows));
  }
  // Of any length, empty if not given.
  template <class T>
  ColumnView<T> any(const std::string& name) const {
    return as<T>(find(name, kType<T>));
  }
  // `rows` elements, or not given.
  template <class T>
  ColumnView<T> optional(const std::string& name, size_t rows) const {
    return has(name) ? get<T>(name, rows) : ColumnView<T>{};
  }
  // Of any length; every element is in [lowest, count), because the code that reads them indexes unchecked.
  template <class T>
  ColumnView<T> indices(const std::string& name, size_t count, int64_t lowest = 0) const {
    return checked(name, any<T>(name), count, lowest);
  }
  // The same with `rows` elements, -1 standing for none where `lowest` is.
  template <class T>
  ColumnView<T> indices(const std::string& name, size_t rows, size_t count, int64_t lowest) const {
    return checked(name, get<T>(name, rows), count, lowest);
  }
  // A ragged column of `rows` rows. Its offsets are checked when they are used.
  ListView list(const std::string& name, size_t rows) const;
  // Which of `children` rows are whose of `parents`; may be left out, and all of them have none then.
  Rows rows(const std::string& name, size_t parents, size_t children) const;
  // A table of text: the offsets of name i and of the one after it in `bytes`.
  std::pair<ColumnView<int64_t>, ColumnView<uint8_t>> texts(const std::string& name) const;

 protected:
  ~ColumnSource() = default;
  virtual bool has(const std::string& name) const = 0;
  // Empty if not given; throws if its elements are of another type.
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
      if (column.stride == 0) break;  // one value for all
    }
    if (!sound) fail(name, "numbers of rows that are not there");
    return column;
  }
};

// What structs of a table's columns begin with: their members are initialized by the names of columns.
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
