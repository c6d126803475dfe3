// Format of arguments in arena words: the torch bridge writes it, the decoder reads it.
//
// A payload is a head word, one entry per positional argument, and one per keyword argument (name, then
// value). An entry is a tag word and the words that its tag requires. A tag word has the tag in its low byte
// and up to seven bytes of detail.
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
  kUndefined = 8,   // an undefined tensor
  kTensorList = 9,  // detail: count, then that many kTensor, kUndefined or kNone entries
  kIntList = 10,    // detail: kept length | full length << 24, then words
  kDoubleList = 11,
  kBoolList = 12,  // one word per element
  kOtherList = 13,
  kOther = 14,      // no text form. detail: length of torch's name of it, then that as kString
  kSequence = 15,   // other tuple or list. detail: tuple 1, list 0 | count << 1,
                    // then that many entries
  kContinued = 16,  // the payload continues at the start of the thread's next block
  kLongInt = 17,    // 1 word
};

// Seven detail bytes of a kTensor tag.
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
constexpr uint8_t kNoSizes = 8;     // nested or symbolic shape: no plain numbers
constexpr uint8_t kNoVersion = 16;  // such as tensors of inference mode
constexpr uint8_t kWide = 32;       // a number needs more than 32 bits

// A kTensor tag is followed by three addresses, a word each: impl, storage impl, data. Then numbers: storage
// offset, version, sizes, and strides if kHasStrides. Two numbers share a word unless the tensor is kWide,
// because writing bytes is much of the cost of shapes.
constexpr size_t kTensorAddresses = 3;

inline size_t count_numbers(size_t dim, uint8_t flags) {
  return 2 + ((flags & kHasStrides) != 0 ? 2 * dim : dim);
}
inline size_t words_of_numbers(size_t count, uint8_t flags) {
  return (flags & kWide) != 0 ? count : (count + 1) / 2;
}

// Number: uint32_t, or uint64_t in a kWide tensor.
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

// Longer lists of scalars are cut, with a mark; longer strings are cut.
constexpr size_t kMaxListElements = 4096;
constexpr size_t kMaxStringBytes = 60000;
constexpr int kMaxSequenceDepth = 8;

constexpr uint64_t make_tag(Tag tag, uint64_t detail = 0) { return static_cast<uint64_t>(tag) | detail << 8; }
// Detail and number of a kInt tag, and whether a number fits.
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

// Head word: counts of positional and keyword arguments, and whether windows without arguments get these too
// (for a collective they are essential).
inline uint64_t make_head(uint64_t positional, uint64_t keywords, bool for_all = false) {
  return positional | keywords << 32 | static_cast<uint64_t>(for_all) << 63;
}
inline uint32_t head_positional(uint64_t head) { return static_cast<uint32_t>(head); }
inline uint32_t head_keywords(uint64_t head) { return static_cast<uint32_t>(head >> 32) & 0x7fffffff; }
inline bool head_for_all(uint64_t head) { return head >> 63 != 0; }

}  // namespace opscope
