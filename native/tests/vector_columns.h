// Columns of a trace's tables for tests.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "numpy/column_source.h"

namespace opscope::tests {

class VectorColumns final : public ColumnSource {
 public:
  template <class T>
  void set(const std::string& name, const std::vector<T>& values) {
    const std::shared_ptr<T[]> data(new T[values.size()]);
    std::copy(values.begin(), values.end(), data.get());
    columns_[name] = {data, {data.get(), 1, values.size()}, kType<T>};
  }

 private:
  struct Column {
    std::shared_ptr<void> data;
    Untyped view;
    Type type;
  };

  bool has(const std::string& name) const override { return columns_.contains(name); }
  Untyped find(const std::string& name, Type type) const override {
    const auto found = columns_.find(name);
    return found != columns_.end() && found->second.type == type ? found->second.view : Untyped{};
  }

  std::map<std::string, Column> columns_;
};

}  // namespace opscope::tests
