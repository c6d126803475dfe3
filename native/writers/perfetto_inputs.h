// What an operator was called with, as one line of text: "float32[64,1,8,8], float32[16], 1".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "numpy/column_view.h"
#include "writers/chrome_arguments.h"

namespace opscope::writers {

// Texts that many spans share, each kept once.
class TextIndex {
 public:
  // The number of the text with this hash, from 0; -1 if there is none yet.
  int64_t find(uint64_t hash) {
    Recent& recent = recent_[hash % recent_.size()];
    if (recent.hash == hash && recent.number >= 0) return recent.number;
    const auto found = numbers_.find(hash);
    if (found == numbers_.end()) return -1;
    recent = {hash, static_cast<int64_t>(found->second)};
    return recent.number;
  }
  size_t add(uint64_t hash, std::string text) {
    numbers_.emplace(hash, texts_.size());
    texts_.push_back(std::move(text));
    return texts_.size() - 1;
  }
  const std::string& operator[](size_t number) const { return texts_[number]; }

 private:
  struct Recent {
    uint64_t hash = 0;
    int64_t number = -1;
  };

  std::array<Recent, 1024> recent_;  // a program repeats itself: most are found here
  std::unordered_map<uint64_t, size_t> numbers_;
  std::vector<std::string> texts_;
};

// One step of a running 64-bit hash. Two different texts share one with probability 2^-64.
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
  // The same for two events whose texts are the same; cheaper than the text.
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

// "[64,1,8,8]"
void append_list(std::string& text, std::span<const int64_t> values);

}  // namespace opscope::writers
