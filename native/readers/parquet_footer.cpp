#include "readers/parquet_footer.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <stdexcept>

namespace opscope::readers {
namespace {

constexpr int kDeepest = 32;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Kinds of values.
constexpr uint8_t kTrue = 1, kFalse = 2, kByte = 3, kI16 = 4, kI32 = 5, kI64 = 6, kDouble = 7, kBinary = 8,
                  kList = 9, kSet = 10, kStruct = 12;

// Fields of parquet.thrift.
constexpr int64_t kRowGroups = 4;                     // of FileMetaData
constexpr int64_t kColumns = 1;                       // of RowGroup
constexpr int64_t kMetaData = 3;                      // of ColumnChunk
constexpr int64_t kNumValues = 5, kUncompressed = 6;  // of ColumnMetaData

[[noreturn]] void damaged() { throw std::invalid_argument("its footer is damaged"); }

class Footer {
 public:
  explicit Footer(std::string_view data) : data_(data) {}

  int64_t file() {
    std::optional<int64_t> bytes;
    fields(0, [&](int64_t number, uint8_t kind) {
      if (number != kRowGroups) return false;
      bytes = sum_of_structs(kind, [&] { return row_group(); });
      return true;
    });
    return known(bytes);
  }

 private:
  int64_t row_group() {
    std::optional<int64_t> bytes;
    fields(2, [&](int64_t number, uint8_t kind) {
      if (number != kColumns) return false;
      bytes = sum_of_structs(kind, [&] { return column(); });
      return true;
    });
    return known(bytes);
  }

  int64_t column() {
    std::optional<int64_t> bytes;
    fields(4, [&](int64_t number, uint8_t kind) {
      if (number != kMetaData) return false;
      if (kind != kStruct) damaged();
      bytes = column_meta_data();
      return true;
    });
    return known(bytes);
  }

  int64_t column_meta_data() {
    std::optional<int64_t> values, pages;
    fields(5, [&](int64_t number, uint8_t kind) {
      if (number != kNumValues && number != kUncompressed) return false;
      if (kind != kI16 && kind != kI32 && kind != kI64) damaged();
      (number == kNumValues ? values : pages) = integer();
      return true;
    });
    if (known(values) < 0 || known(pages) < 0) damaged();
    return std::max(*values > kMost / 8 ? kMost : *values * 8, *pages);
  }

  static int64_t known(const std::optional<int64_t>& value) {
    if (!value) damaged();
    return *value;
  }

  // Hands the fields of the structure that begins here to `take`, which reads the value or leaves it.
  template <class Take>
  void fields(int depth, Take take) {
    if (depth > kDeepest) damaged();
    int64_t number = 0;
    while (const uint8_t head = byte()) {
      const uint8_t step = head >> 4;
      const uint8_t kind = head & 15;
      number = step != 0 ? number + step : integer();
      // A truth value is in its kind.
      if (!take(number, kind) && kind != kTrue && kind != kFalse) skip(kind, depth + 1);
    }
  }

  template <class Read>
  int64_t sum_of_structs(uint8_t kind, Read read) {
    if (kind != kList && kind != kSet) damaged();
    const auto [count, of] = list_head();
    if (count != 0 && of != kStruct) damaged();
    int64_t sum = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const int64_t one = read();
      sum = one > kMost - sum ? kMost : sum + one;
    }
    return sum;
  }

  struct ListHead {
    uint64_t count;
    uint8_t kind;
  };
  ListHead list_head() {
    const uint8_t head = byte();
    const uint8_t few = head >> 4;
    return {few == 15 ? varint() : few, static_cast<uint8_t>(head & 15)};
  }

  void skip(uint8_t kind, int depth) {
    if (depth > kDeepest) damaged();
    switch (kind) {
      case kTrue:  // in a list even a truth value is a byte
      case kFalse:
      case kByte:
        byte();
        return;
      case kI16:
      case kI32:
      case kI64:
        varint();
        return;
      case kDouble:
        skip_bytes(8);
        return;
      case kBinary:
        skip_bytes(varint());
        return;
      case kList:
      case kSet: {
        const auto [count, of] = list_head();
        for (uint64_t i = 0; i < count; ++i) skip(of, depth + 1);
        return;
      }
      case kStruct:
        fields(depth, [](int64_t, uint8_t) { return false; });
        return;
      default:
        damaged();  // Parquet has no maps
    }
  }

  uint8_t byte() {
    if (at_ >= data_.size()) damaged();
    return static_cast<uint8_t>(data_[at_++]);
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t one = byte();
      value |= static_cast<uint64_t>(one & 0x7F) << shift;
      if (one < 0x80) return value;
    }
    damaged();
  }

  int64_t integer() {
    const uint64_t value = varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }

  void skip_bytes(uint64_t length) {
    if (length > data_.size() - at_) damaged();
    at_ += static_cast<size_t>(length);
  }

  std::string_view data_;
  size_t at_ = 0;
};

}  // namespace

int64_t unpacked_bytes(std::string_view footer) { return Footer(footer).file(); }

}  // namespace opscope::readers
