// Reads pickles without running code: None, booleans, numbers, texts, lists, tuples, dictionaries.
//
// Rejects pickles that import or call anything, so a hostile one cannot run code. Dictionaries with equal
// keys share them and store only values, which needs a tenth of Python's memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace opscope::readers {

class PickleProblem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct PickledValue {
  enum class Kind : uint8_t { kNone, kTruth, kInteger, kFloat, kText, kList, kDictionary, kOther };
  Kind kind = Kind::kNone;
  int64_t number = 0;  // the value, or the row of the object
};

// A vector that grows without copying.
template <class T>
class PickledCells {
 public:
  PickledCells() = default;
  PickledCells(PickledCells&&) = default;
  PickledCells& operator=(PickledCells&&) = default;
  size_t size() const { return size_; }
  void push(T value) {
    if ((size_ & kMask) == 0) chunks_.push_back(std::make_unique<std::array<T, kMask + 1>>());
    (*chunks_.back())[size_++ & kMask] = value;
  }
  const T& operator[](size_t row) const { return (*chunks_[row / (kMask + 1)])[row & kMask]; }
  T& operator[](size_t row) { return (*chunks_[row / (kMask + 1)])[row & kMask]; }

 private:
  static constexpr size_t kMask = (1 << 16) - 1;
  std::vector<std::unique_ptr<std::array<T, kMask + 1>>> chunks_;
  size_t size_ = 0;
};

class PlainPickle {
 public:
  using Kind = PickledValue::Kind;

  // Throws PickleProblem. `bytes` must stay valid: texts are parts of it.
  explicit PlainPickle(std::span<const uint8_t> bytes);

  PickledValue root() const { return root_; }
  // None if it is no dictionary or lacks the key.
  PickledValue get(PickledValue dictionary, std::string_view key) const;
  bool has_list(int64_t row) const { return row >= 0 && static_cast<size_t>(row) < lists_.size(); }
  // Empty if it is no list.
  std::span<const PickledValue> items(PickledValue list) const;
  std::string_view text(int64_t row) const { return texts_.at(static_cast<size_t>(row)); }
  // Values of one key in a list of dictionaries; `otherwise` if missing or of another kind.
  std::vector<int64_t> column(PickledValue list, std::string_view key, Kind kind, int64_t otherwise) const;

 private:
  struct Dictionary {
    uint32_t shape = 0;  // its keys
    uint64_t first = 0;  // first of its cells
  };
  using Keys = std::vector<uint32_t>;
  struct HashOfKeys {
    size_t operator()(const Keys& keys) const {
      size_t hash = 1469598103934665603u;
      for (const uint32_t key : keys) hash = (hash ^ key) * 1099511628211u;
      return hash;
    }
  };
  static constexpr uint32_t kNoKey = ~uint32_t{0};

  void read();
  void step(uint8_t code);
  [[noreturn]] void fail(const std::string& what) const;
  void check_sizes() const;
  std::string_view take(uint64_t size);
  uint64_t little(size_t size);
  void push(Kind kind, int64_t number = 0);
  void push_long(uint64_t size);
  void push_text(uint64_t size);
  void push_list(std::vector<PickledValue> values);
  PickledValue pop();
  std::vector<PickledValue> pop_to_mark();
  PickledValue& top();
  void memoize(uint64_t row);
  void recall(uint64_t row);
  void append(std::span<const PickledValue> values);
  void set(std::span<const PickledValue> pairs);
  uint32_t key_of(int64_t text);
  uint32_t known_key(std::string_view text) const;
  std::vector<int32_t> places_of(uint32_t key) const;
  PickledValue cell(uint64_t row) const { return {kinds_[row], numbers_[row]}; }

  std::string_view bytes_;
  size_t at_ = 0;
  PickledValue root_;
  std::vector<PickledValue> stack_;
  std::vector<size_t> marks_;
  PickledCells<PickledValue> memo_;
  std::vector<std::string_view> texts_;
  std::vector<std::vector<PickledValue>> lists_;
  PickledCells<Dictionary> dictionaries_;
  PickledCells<Kind> kinds_;
  PickledCells<int64_t> numbers_;
  std::vector<Keys> shapes_;
  std::unordered_map<Keys, uint32_t, HashOfKeys> shape_of_;
  std::unordered_map<std::string_view, uint32_t> keys_;
  std::unordered_map<int64_t, uint32_t> key_of_text_;
  Keys wanted_;
  size_t listed_ = 0;  // values in all lists
};

}  // namespace opscope::readers
