// Per-thread cache of the table of names. Its key is the text, not an address: annotations and backward nodes
// have their names in temporary strings.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "log/record.h"

namespace opscope {

// Names without an overload have their text as key. Operator names have the address of the operator's schema
// as key, unique while it is registered; the bridge clears them when operators were unregistered.
class NameCache {
 public:
  // Id of a text, or kNoName if it is not in the cache.
  uint32_t find(std::string_view text) const {
    const Text& entry = texts_[hash_text(text) % texts_.size()];
    return entry.length == text.size() && std::memcmp(entry.text, text.data(), text.size()) == 0 ? entry.id
                                                                                                 : kNoName;
  }
  // `text`: must be owned by the name table.
  void insert(std::string_view text, uint32_t id) {
    if (text.size() > UINT32_MAX) return;
    texts_[hash_text(text) % texts_.size()] = {text.data(), static_cast<uint32_t>(text.size()), id};
  }

  // Id of an address, which must not be 0.
  uint32_t find_address(uint64_t address) const {
    const Address& entry = addresses_[slot_of(address)];
    return entry.address == address ? entry.id : kNoName;
  }
  void insert_address(uint64_t address, uint32_t id) { addresses_[slot_of(address)] = {address, id}; }
  void forget_addresses() { addresses_.fill({}); }

 private:
  struct Text {
    const char* text = "";
    uint32_t length = UINT32_MAX;
    uint32_t id = kNoName;
  };
  struct Address {
    uint64_t address = 0;
    uint32_t id = kNoName;
  };

  // A cheap hash, good enough for this small table: two words of the text at a time, then the rest in words
  // that may overlap earlier ones.
  static uint64_t hash_text(std::string_view text) {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
    const auto mix = [](uint64_t hash, uint64_t word) {
      hash = (hash ^ word) * kOdd;
      return hash ^ hash >> 29;
    };
    const char* at = text.data();
    size_t left = text.size();
    uint64_t even = left * kOdd;
    uint64_t odd = ~even;
    for (; left > 2 * sizeof(uint64_t); at += 2 * sizeof(uint64_t), left -= 2 * sizeof(uint64_t)) {
      even = mix(even, read<uint64_t>(at));
      odd = mix(odd, read<uint64_t>(at + sizeof(uint64_t)));
    }
    if (left >= sizeof(uint64_t)) {
      even = mix(even, read<uint64_t>(at));
      odd = mix(odd, read<uint64_t>(at + left - sizeof(uint64_t)));
    } else if (left >= sizeof(uint32_t)) {
      even = mix(even, read<uint32_t>(at));
      odd = mix(odd, read<uint32_t>(at + left - sizeof(uint32_t)));
    } else {
      for (; left != 0; --left) odd = mix(odd, static_cast<uint8_t>(at[left - 1]));
    }
    return (even ^ odd >> 7) * kOdd >> 40;
  }

  template <typename Word>
  static Word read(const char* at) {
    Word word;
    std::memcpy(&word, at, sizeof(word));
    return word;
  }

  static size_t slot_of(uint64_t address) { return (address >> 4 ^ address >> 14 ^ address) % kAddresses; }

  static constexpr size_t kAddresses = 1024;
  std::array<Address, kAddresses> addresses_{};
  std::array<Text, 512> texts_{};
};

}  // namespace opscope
