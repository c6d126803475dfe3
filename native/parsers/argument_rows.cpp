#include "parsers/argument_rows.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "parsers/json_numbers.h"
#include "parsers/json_scanner.h"
#include "schema/codes.h"

namespace opscope::readers {
namespace {

constexpr size_t kMostArguments = std::numeric_limits<int16_t>::max();

// A 64-bit integer; true and false count as 1 and 0.
std::optional<int64_t> size_of(const Value& value) {
  if (value.sort == Sort::kTrue || value.sort == Sort::kFalse) return value.sort == Sort::kTrue;
  const std::optional<Wide> number = value.sort == Sort::kInteger ? whole(value) : std::nullopt;
  if (!number || *number < kInt64.low || *number > kInt64.high) return {};
  return static_cast<int64_t>(*number);
}

// Truth value as in Python.
bool is_truthy(const Value& value) {
  switch (value.sort) {
    case Sort::kMissing:
    case Sort::kNull:
    case Sort::kFalse:
      return false;
    case Sort::kInteger:
      return value.raw != "0" && value.raw != "-0";
    case Sort::kText:
    case Sort::kEscaped:
      return !value.raw.empty();
    case Sort::kList:
    case Sort::kObject:
      return value.raw.find_first_not_of(" \t\r\n", 1) != value.raw.size() - 1;
    default:
      return true;
  }
}

bool is_whole_number(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

uint8_t type_of(std::string_view text) {
  if (text.empty()) return ScalarType::kOther;
  if (text == "True" || text == "False") return ScalarType::kBool;
  if (is_whole_number(text)) return ScalarType::kInt;
  if (text.ends_with('j') || text.ends_with("j)")) return ScalarType::kComplex;
  return is_float(text) ? ScalarType::kFloat : ScalarType::kString;
}

// ScalarType of a list such as "[1, 2]", by its first element.
uint8_t list_type(std::string_view text) {
  if (!text.empty()) text.remove_prefix(1);
  text = text.substr(0, text.find(','));
  while (text.ends_with(']')) text.remove_suffix(1);
  switch (text.empty() ? uint8_t{ScalarType::kInt} : type_of(text)) {
    case ScalarType::kBool:
      return ScalarType::kBoolList;
    case ScalarType::kInt:
      return ScalarType::kIntList;
    case ScalarType::kFloat:
      return ScalarType::kFloatList;
    default:
      return ScalarType::kOtherList;
  }
}

Value next_of(Elements& elements) {
  Value value;
  if (!elements.next(value)) value = {};
  return value;
}

}  // namespace

ArgumentRows::ArgumentRows(TextRows& texts, const DtypeCodes& dtypes,
                           const std::vector<std::string>& known_keys)
    : texts_(texts), dtypes_(dtypes) {
  for (const std::string& key : known_keys) keys_.row_of(key);
  known_keys_ = static_cast<int32_t>(keys_.size());
}

void ArgumentRows::add(int32_t event, const FoundEvent& found) {
  const Value types = found.argument("Input type");
  if (types.sort != Sort::kList) return;
  Value all_sizes = found.argument("Input Dims");
  if (all_sizes.sort == Sort::kMissing) all_sizes = found.argument("Input dims");
  Elements names(types), sizes(all_sizes), strides(found.argument("Input Strides"));
  Elements values(found.argument("Concrete Inputs"));
  Value name;
  for (size_t i = 0; i < kMostArguments && names.next(name); ++i) {
    const auto argument = static_cast<int16_t>(i);
    const Type type = type_named(name);
    const Value size = next_of(sizes), stride = next_of(strides), value = next_of(values);
    if (type.dtype >= 0) {
      add_tensor(event, argument, -1, type.dtype, size, stride);
    } else if (type.is_tensor_list && is_truthy(size)) {
      add_tensor_list(event, argument, size, stride);
    } else {
      add_scalar(event, argument, type, value);
    }
  }
}

void ArgumentRows::add_keywords(int32_t event, const FoundEvent& found) {
  ++call_;
  keywords_.clear();
  for (size_t i = found.members.size(); i-- > 0;) {  // the last of equal keys counts
    const int32_t key = keys_.row_of(found.members[i].key);
    if (key < known_keys_) continue;
    if (key_seen_.size() < keys_.size()) key_seen_.resize(keys_.size());
    if (std::exchange(key_seen_[static_cast<size_t>(key)], call_) != call_) keywords_.push_back(i);
  }
  for (auto i = keywords_.rbegin(); i != keywords_.rend(); ++i) {
    const Value& value = found.members[*i].value;
    std::string_view text = value.raw;
    uint8_t type = ScalarType::kInt;
    if (value.is_text()) {
      text = text_of(value, scratch_);
      type = ScalarType::kString;
    } else if (value.sort == Sort::kTrue || value.sort == Sort::kFalse) {
      text = value.sort == Sort::kTrue ? "True" : "False";
      type = ScalarType::kBool;
    } else if (value.sort == Sort::kDecimal) {
      type = ScalarType::kFloat;
    } else if (value.sort != Sort::kInteger) {
      continue;
    } else if (text == "-0") {
      text = "0";
    }
    append(event, -1, Role::kKeyword, texts_.row_of(found.members[*i].key), type, text);
  }
}

ArgumentRows::Type ArgumentRows::type_named(const Value& name) {
  if (!name.is_text()) return {};
  const std::string_view text = text_of(name, scratch_);
  const auto row = static_cast<size_t>(type_names_.row_of(text));
  if (row == types_.size()) {
    const auto found = dtypes_.find(std::string(text));
    types_.push_back({.dtype = found == dtypes_.end() ? int8_t{-1} : found->second,
                      .is_tensor_list = text == "TensorList",
                      .is_scalar = text == "Scalar",
                      .is_scalar_list = text == "ScalarList"});
  }
  return types_[row];
}

void ArgumentRows::add_tensor(int32_t event, int16_t argument, int32_t element, int8_t dtype,
                              const Value& sizes, const Value& strides) {
  tensors.event.push_back(event);
  tensors.argument.push_back(argument);
  tensors.element.push_back(element);
  tensors.dtype.push_back(dtype);
  append_numbers(tensors.sizes, sizes);
  append_numbers(tensors.strides, strides);
}

// Appends a row; elements that are no integers make an unknown shape.
void ArgumentRows::append_numbers(Lists& lists, const Value& row) {
  const size_t before = lists.values.size();
  Elements elements(row);
  for (Value value; elements.next(value);) {
    const std::optional<int64_t> number = size_of(value);
    if (!number) {
      lists.values.resize(before);
      break;
    }
    lists.values.push_back(*number);
  }
  lists.end_row();
}

void ArgumentRows::add_tensor_list(int32_t event, int16_t argument, const Value& sizes,
                                   const Value& strides) {
  Elements all_sizes(sizes), all_strides(strides);
  int32_t element = 0;
  for (Value size; all_sizes.next(size);)
    add_tensor(event, argument, element++, -1, size, next_of(all_strides));
}

void ArgumentRows::add_scalar(int32_t event, int16_t argument, const Type& type, const Value& value) {
  std::string_view text;
  if (value.is_text()) text = text_of(value, scratch_);
  if (value.sort == Sort::kDecimal) text = value.raw;
  uint8_t found = type.is_tensor_list ? ScalarType::kTensorList : ScalarType::kOther;
  if (type.is_scalar) found = type_of(text);
  if (type.is_scalar_list) found = list_type(text);
  append(event, argument, Role::kInput, -1, found, text);
}

void ArgumentRows::append(int32_t event, int16_t argument, uint8_t role, int32_t keyword, uint8_t type,
                          std::string_view text) {
  scalars.event.push_back(event);
  scalars.argument.push_back(argument);
  scalars.role.push_back(role);
  scalars.keyword.push_back(keyword);
  scalars.type.push_back(type);
  scalars.value.push_back(text.empty() ? -1 : texts_.row_of(text));
}

}  // namespace opscope::readers
