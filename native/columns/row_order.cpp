#include "columns/row_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "schema/numbering.h"

namespace opscope::columns {

namespace {

constexpr int kNarrow = 16;               // values of so few bits sort quickly without ranks
constexpr size_t kMostRanked = 1u << 16;  // so that ranks are narrow
constexpr size_t kFewestRows = 1u << 10;  // fewer rows sort quickly in any way

struct Range {
  int64_t least = 0;
  int bits = 0;
};

Range range_of(Column column, size_t rows) {
  if (rows == 0) return {};
  const auto [least, most] = std::minmax_element(column, column + rows);
  return {*least, std::bit_width(static_cast<uint64_t>(*most) - static_cast<uint64_t>(*least))};
}

struct Identity {
  uint64_t operator()(int64_t value) const { return static_cast<uint64_t>(value); }
};

// Ranks of few distinct, distant values, such as addresses. Empty if there are too many.
std::vector<int64_t> ranks_of(Column column, size_t rows) {
  Numbering<int64_t, Identity> numbers;
  std::vector<int64_t> result(rows);
  for (size_t row = 0; row < rows; ++row) {
    // A value is mostly equal to the previous one.
    result[row] = row != 0 && column[row] == column[row - 1] ? result[row - 1] : numbers.of_any(column[row]);
    if (numbers.keys().size() > kMostRanked) return {};
  }
  const std::vector<int64_t>& values = numbers.keys();
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<int64_t> rank(values.size());
  for (size_t place = 0; place < order.size(); ++place) rank[order[place]] = static_cast<int64_t>(place);
  for (int64_t& number : result) number = rank[static_cast<size_t>(number)];
  return result;
}

// One or more columns in 64 bits.
class Word {
 public:
  // False if the word has no room for a column of this many bits.
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

// The columns of a table as words, in order of precedence.
class RowKeys {
 public:
  RowKeys(const std::vector<Column>& columns, size_t rows) : rows_(rows) {
    for (Column column : columns) {
      Range range = range_of(column, rows);
      if (range.bits > kNarrow && rows >= kFewestRows) {
        std::vector<int64_t> ranks = ranks_of(column, rows);
        if (!ranks.empty()) {
          ranks_.push_back(std::move(ranks));
          column = ranks_.back().data();
          range = range_of(column, rows);
        }
      }
      if (words_.empty() || !words_.back().add(column, range.least, range.bits)) {
        words_.emplace_back();
        words_.back().add(column, range.least, range.bits);
      }
    }
  }

  size_t rows() const { return rows_; }
  const std::vector<Word>& words() const { return words_; }

 private:
  std::vector<std::vector<int64_t>> ranks_;  // replaces some columns in words
  std::vector<Word> words_;
  size_t rows_;
};

constexpr int kDigit = 11;    // bits; the counters of a digit fit into the L1 cache
constexpr int kCounted = 20;  // with many rows, groups of this many bits are counted in a table
using Rows = std::vector<uint32_t>;

// Radix sort of items by `bits` bits from `low` up; stable.
template <class Item, class Key>
void sort_items(std::vector<Item>& items, int low, int bits, Key key) {
  if (bits == 0) return;
  const int passes = (bits + kDigit - 1) / kDigit;
  const int digit = (bits + passes - 1) / passes;
  const uint64_t mask = (uint64_t{1} << digit) - 1;
  std::vector<std::array<uint32_t, size_t{1} << kDigit>> counts(static_cast<size_t>(passes));
  for (const Item& item : items) {
    uint64_t rest = key(item) >> low;
    for (auto& count : counts) {
      ++count[rest & mask];
      rest >>= digit;
    }
  }
  std::vector<Item> other(items.size());
  for (int pass = 0; pass < passes; ++pass) {
    auto& count = counts[static_cast<size_t>(pass)];
    const int shift = low + pass * digit;
    if (count[(key(items.front()) >> shift) & mask] == items.size()) continue;
    uint32_t begin = 0;
    for (uint32_t& one : count) begin += std::exchange(one, begin);
    for (const Item& item : items) other[count[(key(item) >> shift) & mask]++] = item;
    items.swap(other);
  }
}

struct Pair {
  uint64_t key;
  uint32_t row;
};

// Sorts rows by a word.
void sort_rows(Rows& rows, const Word& word) {
  if (rows.empty()) return;
  const int row_bits = std::bit_width(rows.size() - 1);
  const uint64_t row_mask = (uint64_t{1} << row_bits) - 1;
  bool in_order = true;
  if (word.bits() + row_bits <= 64) {  // a row number fits beside its word
    std::vector<uint64_t> items(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      items[i] = word(rows[i]) << row_bits | rows[i];
      in_order = in_order && (i == 0 || items[i] >> row_bits >= items[i - 1] >> row_bits);
    }
    if (in_order) return;
    sort_items(items, row_bits, word.bits(), [](uint64_t item) { return item; });
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint32_t>(items[i] & row_mask);
    return;
  }
  std::vector<Pair> items(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    items[i] = {word(rows[i]), rows[i]};
    in_order = in_order && (i == 0 || items[i].key >= items[i - 1].key);
  }
  if (in_order) return;
  sort_items(items, 0, word.bits(), [](const Pair& item) { return item.key; });
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = items[i].row;
}

Rows sorted(const RowKeys& keys) {
  Rows rows(keys.rows());
  std::iota(rows.begin(), rows.end(), uint32_t{0});
  for (size_t i = keys.words().size(); i-- > 0;) sort_rows(rows, keys.words()[i]);
  return rows;
}

Groups counted(const Word& word, size_t rows) {
  Groups found;
  found.group.resize(rows);
  std::vector<uint32_t> number(size_t{1} << word.bits());
  for (size_t row = 0; row < rows; ++row) {
    const uint64_t key = word(row);
    found.group[row] = static_cast<int64_t>(key);
    number[key] = 1;
  }
  uint32_t groups = 0;
  for (uint32_t& one : number) groups += std::exchange(one, groups);
  found.first.assign(groups, -1);
  found.count.assign(groups, 0);
  for (size_t row = 0; row < rows; ++row) {
    const uint32_t group = number[static_cast<size_t>(found.group[row])];
    found.group[row] = group;
    if (found.count[group]++ == 0) found.first[group] = static_cast<int64_t>(row);
  }
  return found;
}

}  // namespace

std::vector<int64_t> row_order(const std::vector<Column>& columns, size_t rows) {
  const Rows order = sorted(RowKeys(columns, rows));
  return {order.begin(), order.end()};
}

Groups row_groups(const std::vector<Column>& columns, size_t rows) {
  const RowKeys keys(columns, rows);
  const std::vector<Word>& words = keys.words();
  const bool few = words.size() == 1 && words[0].bits() <= kCounted && rows >> words[0].bits() > 0;
  if (few) return counted(words[0], rows);
  Groups found;
  found.group.resize(rows);
  uint32_t before = 0;
  for (const uint32_t row : sorted(keys)) {
    const bool same = !found.first.empty() && std::all_of(words.begin(), words.end(), [&](const Word& word) {
      return word(row) == word(before);
    });
    if (!same) {
      found.first.push_back(row);
      found.count.push_back(0);
    }
    ++found.count.back();
    found.group[row] = static_cast<int64_t>(found.first.size()) - 1;
    before = row;
  }
  return found;
}

}  // namespace opscope::columns
