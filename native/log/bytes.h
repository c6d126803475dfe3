// Plain data as bytes, and back. Input may come from a hostile file: each length and number is checked
// against the available bytes before its use.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace opscope {

// Content of a file that cannot be true.
class Damage : public std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

inline void require(bool is_so, const char* problem) {
  if (!is_so) [[unlikely]]
    throw Damage(problem);
}

// Whether a flag from a file is 0 or 1, the only valid values of a bool.
inline bool is_flag(const bool& flag) {
  uint8_t byte = 0;
  std::memcpy(&byte, &flag, sizeof(byte));
  return byte <= 1;
}

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

// Raises Damage if there are too few bytes.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  bool is_empty() const { return bytes_.empty(); }

  std::string_view take(size_t count) {
    require(count <= bytes_.size(), "the data about the recording is cut off");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <typename Value>
    requires std::is_trivially_copyable_v<Value>
  void get(Value& value) {
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    if constexpr (std::is_same_v<Value, bool>) require(is_flag(value), "a flag is neither 0 nor 1");
  }
  uint64_t get_count(size_t bytes_each) {
    uint64_t count = 0;
    get(count);
    require(count <= bytes_.size() / bytes_each, "the data about the recording is cut off");
    return count;
  }
  std::string get_text() { return std::string(take(get_count(1))); }
  template <typename Value>
  void get_all(std::vector<Value>& values) {
    values.resize(get_count(sizeof(Value)));
    for (Value& value : values) get(value);
  }
  // Calls function(value) to read each new value; reserves no memory before that.
  template <typename Values, typename Function>
  void get_each(Values& values, Function&& function) {
    values.clear();
    for (uint64_t left = get_count(1); left > 0; --left) function(values.emplace_back());
  }

 private:
  std::string_view bytes_;
};

}  // namespace opscope
