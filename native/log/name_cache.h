// What one thread remembers of the table of names. The address of a text says nothing: an annotation's or a
// backward node's lives in a temporary string.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "log/record.h"

namespace opscope {

// Names without an overload are found by their text. Names of operators are found by the address of the
// operator's schema, which identifies it as long as it is registered; the bridge clears those when operators
// were unregistered.
class NameCache {
 public:
  // The id of a text, or kNoName if this thread has not met it.
  uint32_t find(std::string_view text) const {
    const Text& entry = texts_[hash_text(text) % texts_.size()];
    return entry.length == text.size() && std::memcmp(entry.text, text.data(), text.size()) == 0 ? entry.id
                                                                                                 : kNoName;
  }
  // `text` must be the table's own.
  void insert(std::string_view text, uint32_t id) {
    if (text.size() > UINT32_MAX) return;
    texts_[hash_text(text) % texts_.size()] = {text.data(), static_cast<uint32_t>(text.size()), id};
  }

  // The same for an address, which must not be 0.
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

  // A cheap hash, sufficient for a table of this size. It takes two words of the text at a time, and the rest
  // in words that may overlap with those before.
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
