// Plain data as bytes, and back.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace opscope {

class ByteWriter {
 public:
  template <typename Value>
    requires std::is_trivially_copyable_v<Value>
  void put(const Value& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void put_text(std::string_view text) {
    put(uint64_t{text.size()});
    bytes.append(text);
  }
  template <typename Value>
  void put_all(const std::vector<Value>& values) {
    put(uint64_t{values.size()});
    for (const Value& value : values) put(value);
  }

  std::string bytes;
};

// Raises std::invalid_argument where there are too few.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  bool is_empty() const { return bytes_.empty(); }

  std::string_view take(size_t count) {
    if (count > bytes_.size()) throw std::invalid_argument("what is known of a recording ends early");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <typename Value>
    requires std::is_trivially_copyable_v<Value>
  void get(Value& value) {
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  }
  uint64_t get_count(size_t bytes_each) {
    uint64_t count = 0;
    get(count);
    if (count > bytes_.size() / bytes_each)
      throw std::invalid_argument("what is known of a recording ends early");
    return count;
  }
  std::string get_text() { return std::string(take(get_count(1))); }
  template <typename Value>
  void get_all(std::vector<Value>& values) {
    values.resize(get_count(sizeof(Value)));
    for (Value& value : values) get(value);
  }

 private:
  std::string_view bytes_;
};

}  // namespace opscope
