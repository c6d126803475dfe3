// Appends protocol buffer fields to a block: the few wire types of Perfetto's packets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "writers/text_buffer.h"

namespace opscope::writers {

inline char* put_varint(char* p, uint64_t value) {
  while (value >= 0x80) {
    *p++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *p++ = static_cast<char>(value);
  return p;
}

constexpr size_t kVarintBytes = 10;

enum class Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2 };

inline void put_tag(TextBuffer& out, uint32_t field, Wire wire) {
  char* const begin = out.reserve(kVarintBytes);
  out.commit(put_varint(begin, field << 3 | static_cast<uint32_t>(wire)));
}

inline void put_field(TextBuffer& out, uint32_t field, uint64_t value) {
  put_tag(out, field, Wire::kVarint);
  char* const begin = out.reserve(kVarintBytes);
  out.commit(put_varint(begin, value));
}

inline void put_fixed(TextBuffer& out, uint32_t field, uint64_t value) {
  put_tag(out, field, Wire::kFixed64);
  char* const begin = out.reserve(sizeof(value));
  std::memcpy(begin, &value, sizeof(value));  // little-endian, as on every machine with torch
  out.commit(begin + sizeof(value));
}

inline void put_bytes(TextBuffer& out, uint32_t field, std::string_view bytes) {
  put_tag(out, field, Wire::kBytes);
  char* const begin = out.reserve(kVarintBytes);
  out.commit(put_varint(begin, bytes.size()));
  out.put(bytes);
}

// A message with its length in front, open from construction to close(). The length is set at the end: it has
// one byte, and the rare message of 128 bytes or more is moved to make room.
class Message {
 public:
  explicit Message(TextBuffer& out) : out_(out) {
    out.put('\0');
    begin_ = out.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  void close() {
    const size_t size = out_.size() - begin_;
    if (size < 0x80) [[likely]] {
      *out_.at(begin_ - 1) = static_cast<char>(size);
      return;
    }
    char digits[kVarintBytes];
    const auto length = static_cast<size_t>(put_varint(digits, size) - digits);
    out_.reserve(length);
    char* const begin = out_.at(begin_ - 1);
    std::memmove(begin + length, begin + 1, size);
    std::memcpy(begin, digits, length);
    out_.commit(begin + length + size);
  }

 private:
  TextBuffer& out_;
  size_t begin_;
};

// A message as the value of a field in another.
class Nested : public Message {
 public:
  Nested(TextBuffer& out, uint32_t field) : Message(tagged(out, field)) {}

 private:
  static TextBuffer& tagged(TextBuffer& out, uint32_t field) {
    put_tag(out, field, Wire::kBytes);
    return out;
  }
};

}  // namespace opscope::writers
