#include "columns/row_keys.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "columns/mix.h"

namespace opscope::columns {

namespace {

constexpr int kNarrow = 16;               // so few bits sort quickly as they are
constexpr size_t kMostRanked = 1u << 16;  // so that ranks are narrow
constexpr size_t kFewestRows = 1u << 10;  // below, sorting is quick anyway

struct Range {
  int64_t least = 0;
  int bits = 0;
};

Range range_of(Column column, size_t rows) {
  if (rows == 0) return {};
  const auto [least, most] = std::minmax_element(column, column + rows);
  return {*least, std::bit_width(static_cast<uint64_t>(*most) - static_cast<uint64_t>(*least))};
}

// Numbers of values in order of first appearance: a table with open addressing.
class Numbers {
 public:
  Numbers() : places_(1u << 12, -1) {}

  int32_t operator()(int64_t value) {
    size_t at = place_of(value);
    if (places_[at] >= 0) return places_[at];
    if (2 * values_.size() >= places_.size()) {
      grow();
      at = place_of(value);
    }
    places_[at] = static_cast<int32_t>(values_.size());
    values_.push_back(value);
    return places_[at];
  }
  const std::vector<int64_t>& values() const { return values_; }

 private:
  size_t place_of(int64_t value) const {
    const size_t last = places_.size() - 1;
    size_t at = static_cast<size_t>(mix(static_cast<uint64_t>(value))) & last;
    while (places_[at] >= 0 && values_[static_cast<size_t>(places_[at])] != value) at = (at + 1) & last;
    return at;
  }
  void grow() {
    places_.assign(4 * places_.size(), -1);
    for (size_t number = 0; number < values_.size(); ++number) {
      places_[place_of(values_[number])] = static_cast<int32_t>(number);
    }
  }

  std::vector<int32_t> places_;
  std::vector<int64_t> values_;
};

}  // namespace

std::vector<int64_t> Ranks::of(Column column, size_t rows) {
  Numbers numbers;
  std::vector<int64_t> result(rows);
  for (size_t row = 0; row < rows; ++row) {
    // What was there just before is most often there again.
    result[row] = row != 0 && column[row] == column[row - 1] ? result[row - 1] : numbers(column[row]);
    if (numbers.values().size() > kMostRanked) return {};
  }
  const std::vector<int64_t>& values = numbers.values();
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<int64_t> rank(values.size());
  for (size_t place = 0; place < order.size(); ++place) rank[order[place]] = static_cast<int64_t>(place);
  for (int64_t& number : result) number = rank[static_cast<size_t>(number)];
  return result;
}

RowKeys::RowKeys(const std::vector<Column>& columns, size_t rows) : rows_(rows) {
  for (Column column : columns) {
    Range range = range_of(column, rows);
    if (range.bits > kNarrow && rows >= kFewestRows) {
      std::vector<int64_t> ranks = Ranks::of(column, rows);
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

}  // namespace opscope::columns
