// How arguments are packed into arena words: written by the torch bridge, read by the decoder.
//
// A payload is one head word, then one entry per positional argument, then one per keyword argument
// (its name, then its value). An entry is a tag word and the words its tag asks for. A tag word is
// the tag in its low byte and up to seven bytes of detail above it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace opscope {

enum class Tag : uint8_t {
  kNone = 0,
  kBool = 1,        // detail: 0 or 1
  kInt = 2,         // detail: the number, in 56 bits
  kDouble = 3,      // 1 word
  kComplex = 4,     // 2 words
  kString = 5,      // detail: length in bytes, then the bytes padded to words
  kDevice = 6,      // detail: type, index
  kTensor = 7,      // detail: TensorDetail, then addresses and numbers, see below
  kUndefined = 8,   // a tensor that is undefined
  kTensorList = 9,  // detail: count, then that many kTensor, kUndefined or kNone entries
  kIntList = 10,    // detail: length kept | full length << 24, then words
  kDoubleList = 11,
  kBoolList = 12,  // one word per element
  kOtherList = 13,
  kOther = 14,      // without a text form. detail: length of what torch calls it, then that as kString
  kSequence = 15,   // a tuple or a list of no other kind. detail: tuple 1, list 0 | count << 1, then
                    // that many entries
  kContinued = 16,  // the payload goes on at the beginning of the thread's next block
  kLongInt = 17,    // 1 word
};

// The seven detail bytes of a kTensor tag.
struct TensorDetail {
  int8_t dtype;
  uint8_t layout;
  uint8_t device_type;
  int8_t device_index;
  uint8_t dim;
  uint8_t flags;
};
constexpr uint8_t kRequiresGrad = 1;
constexpr uint8_t kWrappedNumber = 2;
constexpr uint8_t kHasStrides = 4;
constexpr uint8_t kNoSizes = 8;     // nested or of symbolic shape: no plain numbers to record
constexpr uint8_t kNoVersion = 16;  // as of one made in inference mode
constexpr uint8_t kWide = 32;       // some number needs more than 32 bits

// After a kTensor tag come three addresses, a word each: of the impl, of the storage impl, of the
// data. Then numbers: storage offset, version, sizes, strides if kHasStrides. Two of them share a
// word unless the tensor is kWide, because the bytes to write are much of what shapes cost.
constexpr size_t kTensorAddresses = 3;

inline size_t count_numbers(size_t dim, uint8_t flags) {
  return 2 + ((flags & kHasStrides) != 0 ? 2 * dim : dim);
}
inline size_t words_of_numbers(size_t count, uint8_t flags) {
  return (flags & kWide) != 0 ? count : (count + 1) / 2;
}

// Number is uint32_t, or uint64_t in a kWide tensor.
template <typename Number>
void write_number(uint64_t* numbers, size_t index, uint64_t value) {
  const auto number = static_cast<Number>(value);
  std::memcpy(reinterpret_cast<char*>(numbers) + index * sizeof(number), &number, sizeof(number));
}
inline int64_t read_number(const uint64_t* numbers, size_t index, uint8_t flags) {
  if ((flags & kWide) != 0) return static_cast<int64_t>(numbers[index]);
  uint32_t number;
  std::memcpy(&number, reinterpret_cast<const char*>(numbers) + index * sizeof(number), sizeof(number));
  return number;
}

// Longer lists of scalars are cut, and say so; longer strings are cut.
constexpr size_t kMaxListElements = 4096;
constexpr size_t kMaxStringBytes = 60000;
constexpr int kMaxSequenceDepth = 8;

constexpr uint64_t make_tag(Tag tag, uint64_t detail = 0) { return static_cast<uint64_t>(tag) | detail << 8; }
// The detail of a kInt tag, the number of such a tag, and whether a number fits into one.
inline uint64_t short_int(int64_t number) { return static_cast<uint64_t>(number) & ~uint64_t{0} >> 8; }
inline int64_t short_int_of(uint64_t word) { return static_cast<int64_t>(word) >> 8; }
inline bool is_short_int(int64_t number) {
  return short_int_of(make_tag(Tag::kInt, short_int(number))) == number;
}
inline Tag tag_of(uint64_t word) { return static_cast<Tag>(word & 0xff); }
inline uint64_t detail_of(uint64_t word) { return word >> 8; }

inline uint64_t pack(const TensorDetail& detail) {
  return static_cast<uint64_t>(static_cast<uint8_t>(detail.dtype)) |
         static_cast<uint64_t>(detail.layout) << 8 | static_cast<uint64_t>(detail.device_type) << 16 |
         static_cast<uint64_t>(static_cast<uint8_t>(detail.device_index)) << 24 |
         static_cast<uint64_t>(detail.dim) << 32 | static_cast<uint64_t>(detail.flags) << 40;
}
inline TensorDetail unpack_tensor(uint64_t detail) {
  return {static_cast<int8_t>(detail),        static_cast<uint8_t>(detail >> 8),
          static_cast<uint8_t>(detail >> 16), static_cast<int8_t>(detail >> 24),
          static_cast<uint8_t>(detail >> 32), static_cast<uint8_t>(detail >> 40)};
}

// The head word: positional and keyword argument counts, and whether windows that want no arguments
// get these all the same (what a collective did is part of what it is).
inline uint64_t make_head(uint64_t positional, uint64_t keywords, bool for_all = false) {
  return positional | keywords << 32 | static_cast<uint64_t>(for_all) << 63;
}
inline uint32_t head_positional(uint64_t head) { return static_cast<uint32_t>(head); }
inline uint32_t head_keywords(uint64_t head) { return static_cast<uint32_t>(head >> 32) & 0x7fffffff; }
inline bool head_for_all(uint64_t head) { return head >> 63 != 0; }

}  // namespace opscope
