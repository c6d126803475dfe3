// Arguments of an operator as one line: "float32[64,1,8,8], float32[16], 1".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "numpy/column_view.h"
#include "schema/numbering.h"
#include "writers/chrome_arguments.h"

namespace opscope::writers {

// Table of distinct texts of spans.
class TextIndex {
 public:
  // Number of the text with this hash, from 0; `text` creates a new one.
  template <class Text>
  size_t number(uint64_t hash, Text text) {
    const auto number = static_cast<size_t>(numbers_.of(hash));
    if (number == texts_.size()) texts_.push_back(text());
    return number;
  }
  const std::string& operator[](size_t number) const { return texts_[number]; }

 private:
  Numbering<uint64_t, std::identity> numbers_;
  std::vector<std::string> texts_;
};

// One step of a running 64-bit hash. Two different texts have equal hashes with probability 2^-64.
inline uint64_t mix_hash(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 32;
}

class PerfettoInputs {
 public:
  // The columns must outlive this. dtype_names: by c10::ScalarType. Names: as in PerfettoTrace.
  PerfettoInputs(ChromeTensors tensors, ChromeScalars scalars, std::vector<std::string> dtype_names,
                 ColumnView<int64_t> name_offsets, ColumnView<uint8_t> name_bytes)
      : tensors_(tensors),
        scalars_(scalars),
        dtype_names_(std::move(dtype_names)),
        name_offsets_(name_offsets),
        name_bytes_(name_bytes) {}

  bool has(size_t event) const;
  // Equal for events with equal texts; cheaper than the text.
  uint64_t hash(size_t event) const;
  std::string text(size_t event) const;

 private:
  void append_tensor(std::string& text, size_t row) const;
  void append_scalar(std::string& text, size_t row) const;

  ChromeTensors tensors_;
  ChromeScalars scalars_;
  std::vector<std::string> dtype_names_;
  ColumnView<int64_t> name_offsets_;
  ColumnView<uint8_t> name_bytes_;
};

void append_list(std::string& text, std::span<const int64_t> values);

}  // namespace opscope::writers
