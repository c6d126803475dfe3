// Several columns as few unsigned words that sort as the rows do: the first column decides first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope::columns {

using Column = const int64_t*;

// One or more columns, beside each other in 64 bits.
class Word {
 public:
  // False where it has no room for a column with values of so many bits.
  bool add(Column column, int64_t least, int bits) {
    if (bits_ + bits > 64) return false;
    for (Part& part : parts_) part.shift += bits;
    parts_.push_back({column, static_cast<uint64_t>(least), 0});
    bits_ += bits;
    return true;
  }
  uint64_t operator()(size_t row) const {
    uint64_t word = 0;
    for (const Part& part : parts_)
      word |= (static_cast<uint64_t>(part.column[row]) - part.least) << part.shift;
    return word;
  }
  int bits() const { return bits_; }

 private:
  struct Part {
    Column column;
    uint64_t least;
    int shift;
  };
  std::vector<Part> parts_;
  int bits_ = 0;
};

// Values with few different ones far apart, such as addresses, by their rank.
class Ranks {
 public:
  // Empty where there are too many.
  static std::vector<int64_t> of(Column column, size_t rows);
};

// The columns of a table as words, the one that decides first at the front.
class RowKeys {
 public:
  RowKeys(const std::vector<Column>& columns, size_t rows);

  size_t rows() const { return rows_; }
  const std::vector<Word>& words() const { return words_; }

 private:
  std::vector<std::vector<int64_t>> ranks_;  // what words refer to instead of some columns
  std::vector<Word> words_;
  size_t rows_;
};

}  // namespace opscope::columns
