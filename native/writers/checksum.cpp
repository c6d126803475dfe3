#include "writers/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace opscope::writers {
namespace {

constexpr uint64_t kMul1 = 0x9e3779b185ebca87;
constexpr uint64_t kMul2 = 0xc2b2ae3d27d4eb4f;
constexpr uint64_t kMul3 = 0x165667b19e3779f9;
constexpr uint64_t kMul4 = 0x85ebca77c2b2ae63;
constexpr uint64_t kMul5 = 0x27d4eb2f165667c5;

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

template <class Word>
uint64_t read_word(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

uint64_t mixed(uint64_t lane, uint64_t word) { return std::rotl(lane + word * kMul2, 31) * kMul1; }

uint64_t merged(uint64_t hash, uint64_t lane) { return (hash ^ mixed(0, lane)) * kMul1 + kMul4; }

uint64_t with_rest(uint64_t hash, const char* at, size_t size) {
  for (; size >= 8; at += 8, size -= 8) {
    hash = std::rotl(hash ^ mixed(0, read_word<uint64_t>(at)), 27) * kMul1 + kMul4;
  }
  if (size >= 4) {
    hash = std::rotl(hash ^ (read_word<uint32_t>(at) * kMul1), 23) * kMul2 + kMul3;
    at += 4, size -= 4;
  }
  for (; size > 0; ++at, --size) hash = std::rotl(hash ^ (read_word<uint8_t>(at) * kMul5), 11) * kMul1;
  return hash;
}

}  // namespace

void Checksum::add(std::string_view bytes) {
  const size_t held = size_ % kStripe;
  size_ += bytes.size();
  if (held != 0) {
    const size_t taken = std::min(kStripe - held, bytes.size());
    std::copy_n(bytes.data(), taken, rest_.data() + held);
    bytes.remove_prefix(taken);
    if (held + taken < kStripe) return;
    add_stripes(rest_.data(), 1);
  }
  const size_t stripes = bytes.size() / kStripe;
  add_stripes(bytes.data(), stripes);
  bytes.remove_prefix(stripes * kStripe);
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
}

void Checksum::add_stripes(const char* stripes, size_t count) {
  std::array<uint64_t, 4> lanes = lanes_;  // in registers: writes to the member could alias
  for (const char* const end = stripes + count * kStripe; stripes != end; stripes += kStripe) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane] = mixed(lanes[lane], read_word<uint64_t>(stripes + 8 * lane));
    }
  }
  lanes_ = lanes;
}

uint64_t Checksum::value() const {
  uint64_t hash = kMul5;
  if (size_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = merged(hash, lane);
  }
  hash = with_rest(hash + size_, rest_.data(), size_ % kStripe);
  hash = (hash ^ (hash >> 33)) * kMul2;
  hash = (hash ^ (hash >> 29)) * kMul3;
  return hash ^ (hash >> 32);
}

}  // namespace opscope::writers
