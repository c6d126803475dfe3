// How arguments are packed into arena words: written by the torch bridge, read by the decoder.
//
// A payload is one head word, then one entry per positional argument, then one per keyword argument
// (its name, then its value). An entry is a tag word and the words its tag asks for. A tag word is
// the tag in its low byte and up to seven bytes of detail above it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace opscope {

enum class Tag : uint8_t {
  kNone = 0,
  kBool = 1,        // detail: 0 or 1
  kInt = 2,         // 1 word
  kDouble = 3,      // 1 word
  kComplex = 4,     // 2 words
  kString = 5,      // detail: length in bytes, then the bytes padded to words
  kDevice = 6,      // detail: type, index
  kTensor = 7,      // TensorDetail, kTensorWords words, sizes, strides if has_strides
  kUndefined = 8,   // a tensor that is undefined
  kTensorList = 9,  // detail: count, then that many kTensor, kUndefined or kNone entries
  kIntList = 10,    // detail: length kept | full length << 24, then words
  kDoubleList = 11,
  kBoolList = 12,  // one word per element
  kOtherList = 13,
  kOther = 14,      // without a text form. detail: length of what torch calls it, then that as kString
  kSequence = 15,   // a tuple or a list of no other kind. detail: tuple 1, list 0 | count << 1, then
                    // that many entries
  kContinued = 16,  // the payload goes on elsewhere: 1 word, the address
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
constexpr uint8_t kNoSizes = 8;  // nested or of symbolic shape: no plain numbers to record

// Words after a kTensor tag: impl, storage impl, storage address, storage offset, version.
constexpr size_t kTensorWords = 5;
// Longer lists of scalars are cut, and say so; longer strings are cut.
constexpr size_t kMaxListElements = 4096;
constexpr size_t kMaxStringBytes = 60000;
constexpr int kMaxSequenceDepth = 8;

inline uint64_t make_tag(Tag tag, uint64_t detail = 0) {
  return static_cast<uint64_t>(tag) | detail << 8;
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
  return {static_cast<int8_t>(detail),       static_cast<uint8_t>(detail >> 8),
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
