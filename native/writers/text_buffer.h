// A growing block of text: writers format into it and pass it to Python without a copy.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace opscope::writers {

// A time to be written as microseconds.
struct Microseconds {
  int64_t ns;
};

class TextBuffer {
 public:
  explicit TextBuffer(size_t capacity)
      : data_(std::make_unique_for_overwrite<char[]>(capacity)), capacity_(capacity) {}

  size_t size() const { return size_; }
  std::string_view view() const { return {data_.get(), size_}; }
  std::unique_ptr<char[]> release() { return std::move(data_); }
  char* at(size_t offset) { return data_.get() + offset; }

  // Room for `bytes` more. The caller writes there and reports the end with commit().
  char* reserve(size_t bytes) {
    if (capacity_ - size_ < bytes) [[unlikely]]
      grow(bytes);
    return data_.get() + size_;
  }
  void commit(const char* end) { size_ = static_cast<size_t>(end - data_.get()); }

  void put(std::string_view text) {
    if (text.empty()) return;  // its pointer may be null, which memcpy does not allow
    std::memcpy(reserve(text.size()), text.data(), text.size());
    size_ += text.size();
  }
  // For literals: the length is a constant, so this is a few moves without a call.
  template <size_t N>
  void put(const char (&literal)[N]) {
    std::memcpy(reserve(N - 1), literal, N - 1);
    size_ += N - 1;
  }
  void put(char c) {
    *reserve(1) = c;
    ++size_;
  }
  template <class Integer>
  void number(Integer value) {
    char* const begin = reserve(kDigits);
    commit(std::to_chars(begin, begin + kDigits, value).ptr);
  }
  // Appends texts, characters, numbers and times in order.
  template <class... Parts>
    requires(sizeof...(Parts) > 1)
  void put(const Parts&... parts) {
    (put_one(parts), ...);
  }

  void numbers(std::span<const int64_t> values) {
    put('[');
    for (size_t i = 0; i < values.size(); ++i) {
      if (i != 0) put(',');
      number(values[i]);
    }
    put(']');
  }

  // Nanoseconds as microseconds with three decimals: exact, unlike a float.
  void microseconds(int64_t nanoseconds) {
    const auto value = static_cast<uint64_t>(nanoseconds < 0 ? 0 : nanoseconds);
    char* p = reserve(kDigits + 4);
    p = std::to_chars(p, p + kDigits, value / 1000).ptr;
    const auto rest = static_cast<unsigned>(value % 1000);
    *p++ = '.';
    *p++ = static_cast<char>('0' + rest / 100);
    *p++ = static_cast<char>('0' + rest / 10 % 10);
    *p++ = static_cast<char>('0' + rest % 10);
    commit(p);
  }

 private:
  static constexpr size_t kDigits = 20;  // "-9223372036854775808" and "18446744073709551615"

  template <class Part>
  void put_one(const Part& part) {
    if constexpr (std::same_as<Part, Microseconds>) {
      microseconds(part.ns);
    } else if constexpr (std::integral<Part> && !std::same_as<Part, char>) {
      number(part);
    } else {
      put(part);
    }
  }

  void grow(size_t bytes) {
    const size_t capacity = capacity_ * 2 > size_ + bytes ? capacity_ * 2 : size_ + bytes;
    auto data = std::make_unique_for_overwrite<char[]>(capacity);
    if (size_ != 0) std::memcpy(data.get(), data_.get(), size_);
    data_ = std::move(data);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> data_;
  size_t size_ = 0;
  size_t capacity_;
};

}  // namespace opscope::writers
