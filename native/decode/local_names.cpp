#include "decode/columns.h"

namespace opscope {

int32_t LocalNames::add(std::string_view text) {
  const auto [entry, is_new] = ids_.try_emplace(std::string(text), static_cast<int32_t>(ids_.size()));
  if (is_new) {
    blob.append(text);
    offsets.push_back(static_cast<int64_t>(blob.size()));
  }
  return entry->second;
}

LocalNames LocalNames::from(size_t first) const {
  LocalNames later;
  const int64_t begin = offsets[first];
  later.blob = blob.substr(static_cast<size_t>(begin));
  later.offsets.clear();
  for (size_t i = first; i < offsets.size(); ++i) later.offsets.push_back(offsets[i] - begin);
  return later;
}

LocalNames::Global LocalNames::global(const Texts& texts, uint32_t id) {
  if (!texts.has_name(id)) return {add({}), kNone};
  if (id >= globals_.size()) globals_.resize(id + 1);
  Global& entry = globals_[id];
  if (entry.text == -2) {
    const NameText name = texts.name(id);
    entry.text = add(name.text);
    entry.overload = name.overload.empty() ? kNone : add(name.overload);
  }
  return entry;
}

int32_t LocalNames::add_global(const Texts& texts, uint32_t id) {
  return id == kNoName ? add("<name table full>") : global(texts, id).text;
}

int32_t LocalNames::overload_of(const Texts& texts, uint32_t id) {
  return id == kNoName ? kNone : global(texts, id).overload;
}

}  // namespace opscope
