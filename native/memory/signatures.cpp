#include <algorithm>
#include <unordered_map>

#include "memory/accounts.h"

namespace opscope::memory {

namespace {

// Argument kinds of all events, one letter each.
class Kinds {
 public:
  explicit Kinds(const Tables& tables) : offsets_(tables.events.size() + 1) {
    reserve(tables.tensors.event, tables.tensors.argument, tables.tensors.role);
    reserve(tables.scalars.event, tables.scalars.argument, tables.scalars.role);
    for (size_t event = 0; event + 1 < offsets_.size(); ++event) offsets_[event + 1] += offsets_[event];
    letters_.assign(offsets_.back(), static_cast<char>(ArgumentKind::kNothing));
  }

  char* find(int32_t event, int16_t argument) {
    if (event < 0 || argument < 0 || static_cast<size_t>(event) + 1 >= offsets_.size()) return nullptr;
    return &letters_[offsets_[event] + static_cast<size_t>(argument)];
  }
  std::string_view of(size_t event) const {
    return std::string_view(letters_).substr(offsets_[event], offsets_[event + 1] - offsets_[event]);
  }

 private:
  void reserve(const ColumnView<int32_t>& event, const ColumnView<int16_t>& argument,
               const ColumnView<uint8_t>& role) {
    for (size_t row = 0; row < event.size; ++row) {
      if (role[row] != Role::kInput || argument[row] < 0) continue;
      if (event[row] < 0 || static_cast<size_t>(event[row]) + 1 >= offsets_.size()) continue;
      size_t& count = offsets_[static_cast<size_t>(event[row]) + 1];
      count = std::max(count, static_cast<size_t>(argument[row]) + 1);
    }
  }

  std::vector<size_t> offsets_;
  std::string letters_;
};

ArgumentKind scalar_kind(uint8_t type) {
  switch (type) {
    case ScalarType::kBool:
      return ArgumentKind::kBool;
    case ScalarType::kInt:
      return ArgumentKind::kInt;
    case ScalarType::kFloat:
      return ArgumentKind::kFloat;
    case ScalarType::kComplex:
      return ArgumentKind::kComplex;
    case ScalarType::kTensorList:
      return ArgumentKind::kTensorList;  // an empty one
    default:
      return ArgumentKind::kNothing;
  }
}

void add_scalars(const Scalars& scalars, Kinds& kinds) {
  for (size_t row = 0; row < scalars.size(); ++row) {
    if (scalars.role[row] != Role::kInput) continue;
    char* const kind = kinds.find(scalars.event[row], scalars.argument[row]);
    if (kind != nullptr) *kind = static_cast<char>(scalar_kind(scalars.type[row]));
  }
}

// A list with an undefined or nested tensor is ignored, as in torch's profiler.
void add_tensors(const Tensors& tensors, Kinds& kinds) {
  constexpr char kBroken = '!';
  std::vector<char*> broken;
  for (size_t row = 0; row < tensors.size(); ++row) {
    if (tensors.role[row] != Role::kInput) continue;
    char* const kind = kinds.find(tensors.event[row], tensors.argument[row]);
    if (kind == nullptr || *kind == kBroken) continue;
    const bool known = tensors.identity.known(row) && tensors.shapes.dtype[row] >= 0;
    if (tensors.element[row] < 0) {
      if (known) *kind = static_cast<char>(ArgumentKind::kTensor);
    } else if (known) {
      *kind = static_cast<char>(ArgumentKind::kTensorList);
    } else {
      *kind = kBroken;
      broken.push_back(kind);
    }
  }
  for (char* const kind : broken) *kind = static_cast<char>(ArgumentKind::kNothing);
}

}  // namespace

Signatures read_signatures(const Tables& tables) {
  Kinds kinds(tables);
  add_scalars(tables.scalars, kinds);
  add_tensors(tables.tensors, kinds);
  Signatures result;
  result.of_event.assign(tables.events.size(), -1);
  std::unordered_map<std::string, int32_t> numbers;
  std::string key;
  for (size_t event = 0; event < tables.events.size(); ++event) {
    const uint8_t kind = tables.events.kind[event];
    if (kind != EventKind::kOperator && kind != EventKind::kAnnotation) continue;
    const int32_t name = tables.events.name[event];
    key.assign(reinterpret_cast<const char*>(&name), sizeof(name));
    key += kinds.of(event);
    const auto [found, added] = numbers.try_emplace(key, static_cast<int32_t>(result.name.size()));
    if (added) {
      result.name.push_back(name);
      result.kinds.emplace_back(kinds.of(event));
    }
    result.of_event[event] = found->second;
  }
  return result;
}

}  // namespace opscope::memory
