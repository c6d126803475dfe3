// Names of operators and annotations: text once per process, a 32-bit id everywhere else.
//
// A NameCache per thread maps the address of a name to its id. Addresses are reused (an annotation's
// text lives in a temporary string), so a hit is believed only after comparing the text.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "record.h"

namespace opscope {

struct Name {
  std::string text;
  std::string overload;  // operator overload, empty where unknown or not asked for
};

class NameTable {
 public:
  // A program that names every step differently for months must not eat the machine.
  explicit NameTable(size_t max_bytes = 256u << 20) : max_bytes_(max_bytes) {}

  // [MT] The id of this text and overload, made if new; kNoName when the table is full.
  uint32_t intern(std::string_view text, std::string_view overload = {}) {
    std::lock_guard lock(mutex_);
    key_.assign(text);
    key_.push_back('\0');
    key_.append(overload);
    const auto found = ids_.find(key_);
    if (found != ids_.end()) return found->second;
    if (bytes_ + key_.size() > max_bytes_) return kNoName;
    bytes_ += key_.size();
    const auto id = static_cast<uint32_t>(names_.size());
    names_.push_back({std::string(text), std::string(overload)});
    ids_.emplace(key_, id);
    return id;
  }

  // [MT] A name that was interned stays where it is for the life of the process.
  const Name& at(uint32_t id) {
    std::lock_guard lock(mutex_);
    return names_[id];
  }

  std::mutex& mutex() { return mutex_; }  // for the fork handlers only

 private:
  const size_t max_bytes_;
  std::mutex mutex_;
  std::deque<Name> names_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::string key_;
  size_t bytes_ = 0;
};

struct NameCache {
  struct Entry {
    const char* address = nullptr;
    const char* text = nullptr;  // the table's own copy
    uint32_t id = kNoName;
    bool has_overload = false;
  };
  std::array<Entry, 512> entries;

  Entry& slot(const char* address) {
    const auto bits = reinterpret_cast<uintptr_t>(address);
    return entries[((bits >> 4) ^ (bits >> 13)) % entries.size()];
  }

  // The id, or kNoName if this thread has not seen the name at this address.
  uint32_t find(const char* address, bool with_overload) {
    const Entry& entry = slot(address);
    if (entry.address != address || entry.has_overload != with_overload) return kNoName;
    return std::strcmp(entry.text, address) == 0 ? entry.id : kNoName;
  }

  void insert(const char* address, const Name& name, uint32_t id, bool with_overload) {
    slot(address) = {address, name.text.c_str(), id, with_overload};
  }
};

}  // namespace opscope
