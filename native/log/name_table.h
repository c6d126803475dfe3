// Names of operators and annotations: text once per process, a 32-bit id everywhere else.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "log/journal.h"
#include "log/record.h"

namespace opscope {

struct Name {
  std::string text;
  std::string overload;  // operator overload, empty if unknown or not wanted
};

class NameTable {
 public:
  // `max_bytes`: names are never freed, so a program with new names in every step would use up memory.
  explicit NameTable(Journal& journal, size_t max_bytes = 256u << 20)
      : journal_(journal), max_bytes_(max_bytes) {}

  // [MT] Id of this text and overload, created if new; kNoName if the table or memory is full.
  uint32_t intern(std::string_view text, std::string_view overload = {}) noexcept try {
    const std::lock_guard lock(mutex_);
    key_.assign(text);
    key_.push_back('\0');
    key_.append(overload);
    const auto found = ids_.find(key_);
    if (found != ids_.end()) return found->second;
    if (bytes_ + key_.size() > max_bytes_) return kNoName;
    const auto id = static_cast<uint32_t>(names_.size());
    if (!journal_.append(EntryKind::kName, id, {text, overload})) return kNoName;
    names_.push_back({std::string(text), std::string(overload)});
    bytes_ += key_.size();
    ids_.emplace(key_, id);
    return id;
  } catch (const std::bad_alloc&) {
    return kNoName;
  }

  // [MT] The reference stays valid for the life of the process.
  const Name& at(uint32_t id) {
    std::lock_guard lock(mutex_);
    return names_[id];
  }

  // [MT] Texts of names with this or a higher id, in order.
  std::vector<std::string> texts_from(uint32_t id) {
    std::lock_guard lock(mutex_);
    std::vector<std::string> texts;
    for (size_t i = id; i < names_.size(); ++i) texts.push_back(names_[i].text);
    return texts;
  }

  std::mutex& mutex() { return mutex_; }  // for the fork handlers only

 private:
  Journal& journal_;
  const size_t max_bytes_;
  std::mutex mutex_;
  std::deque<Name> names_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::string key_;
  size_t bytes_ = 0;
};

}  // namespace opscope
