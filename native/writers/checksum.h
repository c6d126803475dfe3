// A checksum of text as it is written, an order of magnitude faster than zlib's CRC-32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace opscope::writers {

// XXH64 with seed 0, of bytes that come in pieces of any length.
// Source: "xxHash fast digest algorithm", specification 0.1.1 (Yann Collet).
class Checksum {
 public:
  void add(std::string_view bytes);
  uint64_t value() const;

 private:
  static constexpr size_t kStripe = 32;

  void add_stripes(const char* stripes, size_t count);

  static constexpr uint64_t kPrime1 = 0x9e3779b185ebca87;
  static constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;

  std::array<uint64_t, 4> lanes_ = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  std::array<char, kStripe> rest_{};  // the first bytes of a stripe that is not complete
  uint64_t size_ = 0;
};

}  // namespace opscope::writers
