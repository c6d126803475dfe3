// Table of distinct texts, numbered in order of first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace opscope::readers {

class TextRows {
 public:
  // Row of a text; adds a new one.
  int32_t row_of(std::string_view text) {
    if ((size() + 1) * 2 > slots_.size()) grow();
    const uint64_t hash = hash_of(text);
    size_t slot = hash & (slots_.size() - 1);
    for (; slots_[slot].row >= 0; slot = (slot + 1) & (slots_.size() - 1))
      if (slots_[slot].check == check_of(hash) && (*this)[slots_[slot].row] == text) return slots_[slot].row;
    const auto row = static_cast<int32_t>(size());
    slots_[slot] = {row, check_of(hash)};
    bytes_.append(text);
    ends_.push_back(bytes_.size());
    return row;
  }
  size_t size() const { return ends_.size() - 1; }
  std::string_view operator[](int32_t row) const {
    const auto i = static_cast<size_t>(row);
    return std::string_view(bytes_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }

 private:
  struct Slot {
    int32_t row = -1;
    uint32_t check = 0;
  };

  static uint32_t check_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  static uint64_t hash_of(std::string_view text) {
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
    uint64_t hash = text.size() * kFactor;
    const auto mix = [&hash](uint64_t word) {
      hash = (hash ^ word) * kFactor;
      hash ^= hash >> 29;
    };
    const char* at = text.data();
    size_t left = text.size();
    uint64_t word = 0;
    for (; left >= sizeof word; at += sizeof word, left -= sizeof word) {
      std::memcpy(&word, at, sizeof word);
      mix(word);
    }
    word = 0;
    if (left != 0) std::memcpy(&word, at, left);
    mix(word);
    return hash ^ hash >> 32;
  }

  void grow() {
    std::vector<Slot> slots(slots_.empty() ? 64 : slots_.size() * 2);
    slots_.swap(slots);
    for (size_t row = 0; row < size(); ++row) {
      const uint64_t hash = hash_of((*this)[static_cast<int32_t>(row)]);
      size_t slot = hash & (slots_.size() - 1);
      while (slots_[slot].row >= 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = {static_cast<int32_t>(row), check_of(hash)};
    }
  }

  std::string bytes_;
  std::vector<size_t> ends_{0};
  std::vector<Slot> slots_;
};

}  // namespace opscope::readers
