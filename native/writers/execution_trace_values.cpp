#include "writers/execution_trace_values.h"

#include <algorithm>

#include "schema/codes.h"
#include "writers/wrapping_times.h"

namespace opscope::writers {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string quoted(std::string_view text) {
  std::string result = "\"";
  result.append(text).push_back('"');
  return result;
}

size_t skip_digits(std::string_view text, size_t i) {
  while (i < text.size() && is_digit(text[i])) ++i;
  return i;
}

// A number as JSON: torch's text except "1.", which is no JSON, and infinite numbers, which are in quotes.
std::string number_json(std::string_view text) {
  size_t i = !text.empty() && text[0] == '-' ? 1 : 0;
  const size_t whole = skip_digits(text, i);
  if (whole == i || (text[i] == '0' && whole > i + 1)) return quoted(text);
  i = whole;
  std::string result(text.substr(0, i));
  if (i < text.size() && text[i] == '.') {
    const size_t end = skip_digits(text, i + 1);
    result.append(text.substr(i, end - i));
    if (end == i + 1) result.push_back('0');
    i = end;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    const size_t digits = i + 1 + (i + 1 < text.size() && (text[i + 1] == '-' || text[i + 1] == '+') ? 1 : 0);
    const size_t end = skip_digits(text, digits);
    if (end == digits) return quoted(text);
    result.append(text.substr(i, end - i));
    i = end;
  }
  return i == text.size() ? result : quoted(text);
}

std::string bool_json(std::string_view text) {
  return text == "True" || text == "true" || text == "1" ? "true" : "false";
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string_view kind_name(uint8_t type) {
  switch (type) {
    case ScalarType::kNone:
      return "None";
    case ScalarType::kBool:
    case ScalarType::kBoolList:
      return "Bool";
    case ScalarType::kInt:
    case ScalarType::kIntList:
      return "Int";
    case ScalarType::kFloat:
    case ScalarType::kFloatList:
      return "Double";
    case ScalarType::kComplex:
      return "ComplexDouble";
    case ScalarType::kString:
      return "String";
    case ScalarType::kDevice:
      return "Device";
    default:
      return "Other";
  }
}

// Type of an element in a list of Scalar, by its format: 2, 2., True.
uint8_t type_of_element(uint8_t list, std::string_view text) {
  if (list == ScalarType::kBoolList || text == "True" || text == "False") return ScalarType::kBool;
  if (list == ScalarType::kIntList) return ScalarType::kInt;
  const size_t begin = text.front() == '-' ? 1 : 0;
  return text.size() > begin && skip_digits(text, begin) == text.size() ? ScalarType::kInt
                                                                        : ScalarType::kFloat;
}

}  // namespace

void ValueWriter::write_inputs(TextBuffer& out, size_t event, size_t most, std::string_view more) {
  collect(event, most, tensors_.inputs, scalars_.inputs);
  const std::string_view empty_list = more.empty() ? "" : "[]";
  out.put("{\"values\":");
  write_part(out, Part::kValues, more);
  out.put(",\"shapes\":");
  write_part(out, Part::kShapes, empty_list);
  out.put(",\"types\":");
  write_part(out, Part::kTypes, more.empty() ? "" : "\"Int\"");
  out.put(",\"strides\":");
  write_part(out, Part::kStrides, {});  // none for the further value, as in torch's files
  out.put('}');
}

void ValueWriter::write_outputs(TextBuffer& out, size_t event, size_t most) {
  collect(event, most, tensors_.outputs, scalars_.outputs);
  out.put("{\"values\":");
  write_part(out, Part::kValues, {});
  out.put(",\"shapes\":");
  write_part(out, Part::kShapes, {});
  out.put(",\"types\":");
  write_part(out, Part::kTypes, {});
  out.put(",\"strides\":");
  write_part(out, Part::kStrides, {});
  out.put('}');
}

void ValueWriter::collect(size_t event, size_t most, const RowsOfEvents& tensors,
                          const RowsOfEvents& scalars) {
  arguments_.clear();
  side_ = &tensors;
  const auto scalar_rows = scalars.rows[event];
  for (size_t i = scalar_rows.begin; i < scalar_rows.end; ++i) {
    const size_t row = scalars[i];
    if (scalars_.argument[row] < 0) continue;
    Argument& argument = place(scalars_.argument[row]);
    argument.kind =
        names_.nested.contains(scalars_.value[row]) && scalars_.type[row] >= ScalarType::kOtherList
            ? Argument::kNested
            : Argument::kScalar;
    argument.scalar = row;
  }
  const auto tensor_rows = tensors.rows[event];
  for (size_t i = tensor_rows.begin; i < tensor_rows.end;) {
    const size_t begin = i;
    const size_t first = tensors[begin];
    const int16_t position = tensors_.argument[first];
    while (i < tensor_rows.end && tensors_.argument[tensors[i]] == position) ++i;
    if (position < 0) continue;
    Argument& argument = place(position);
    argument.begin = begin;
    argument.end = i;
    const uint8_t role = tensors_.role[first];
    if (role == Role::kInputPart || role == Role::kOutputPart) continue;  // part of a placed nested value
    argument.kind = tensors_.element[first] >= 0 ? Argument::kTensorList : Argument::kTensor;
  }
  if (arguments_.size() > most)
    arguments_.erase(arguments_.begin(), arguments_.end() - static_cast<ptrdiff_t>(most));
}

ValueWriter::Argument& ValueWriter::place(int16_t position) {
  const auto index = static_cast<size_t>(position);
  if (index >= arguments_.size()) arguments_.resize(index + 1);
  return arguments_[index];
}

void ValueWriter::write_part(TextBuffer& out, Part part, std::string_view more) {
  out.put('[');
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (i != 0) out.put(',');
    if (part == Part::kTypes) out.put('"');
    write_argument(out, part, arguments_[i]);
    if (part == Part::kTypes) out.put('"');
  }
  if (!more.empty()) {
    if (!arguments_.empty()) out.put(',');
    out.put(more);
  }
  out.put(']');
}

void ValueWriter::write_argument(TextBuffer& out, Part part, const Argument& argument) {
  switch (argument.kind) {
    case Argument::kTensor:
      return write_tensor(out, part, (*side_)[argument.begin]);
    case Argument::kTensorList:
      return write_tensors(out, part, argument);
    case Argument::kScalar:
      return write_scalar(out, part, argument.scalar);
    case Argument::kNested:
      return write_nested(out, part, argument);
    case Argument::kMissing:
      break;
  }
  // Unrecorded positions stay: readers match arguments by position.
  if (part == Part::kValues) {
    out.put("\"<None>\"");
  } else {
    out.put(part == Part::kTypes ? std::string_view("None") : std::string_view("[]"));
  }
}

void ValueWriter::write_tensors(TextBuffer& out, Part part, const Argument& argument) {
  if (part == Part::kTypes) out.put("GenericList");
  out.put('[');
  for (size_t i = argument.begin; i < argument.end; ++i) {
    if (i != argument.begin) out.put(',');
    write_tensor(out, part, (*side_)[i]);
  }
  out.put(']');
}

void ValueWriter::write_nested(TextBuffer& out, Part part, const Argument& argument) {
  const NestedText& nested = names_.nested.at(scalars_.value[argument.scalar]);
  const auto& texts = part == Part::kValues  ? nested.values
                      : part == Part::kTypes ? nested.types
                                             : nested.shapes;
  for (size_t i = 0; i < texts.size(); ++i) {
    out.put(texts[i]);
    if (i + 1 == texts.size()) break;
    if (argument.begin + i < argument.end) {
      write_tensor(out, part, (*side_)[argument.begin + i]);
    } else {  // a damaged table: its tensors are missing
      out.put(part == Part::kTypes ? std::string_view("None") : std::string_view("[]"));
    }
  }
}

void ValueWriter::write_tensor(TextBuffer& out, Part part, size_t row) {
  const bool is_none = tensors_.layout[row] < 0;
  switch (part) {
    case Part::kValues:
      if (is_none) {
        out.put("\"<None>\"");
      } else {
        write_tensor_value(out, row);
      }
      return;
    case Part::kTypes:
      if (is_none) {
        out.put("None");
      } else {
        write_tensor_type(out, row);
      }
      return;
    case Part::kShapes:
      return out.numbers(tensors_.sizes[row]);
    case Part::kStrides:
      break;
  }
  const auto sizes = tensors_.sizes[row];
  const auto strides = tensors_.strides[row];
  if (!strides.empty() || sizes.empty()) return out.numbers(strides);
  out.put('[');  // no layout with strides
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i != 0) out.put(',');
    out.put('0');
  }
  out.put(']');
}

uint64_t ValueWriter::life(int64_t number) const {
  return number < 0 ? 0 : segment_ << 40 | static_cast<uint64_t>(sum_of(number, 1));
}

void ValueWriter::write_tensor_value(TextBuffer& out, size_t row) {
  const int8_t dtype = tensors_.dtype[row];
  const uint64_t impl = tensors_.impl[row];
  out.put('[');
  // All undefined tensors are one object in torch; a tensor from a file without addresses is none.
  constexpr uint64_t kUndefined = 1;
  const uint64_t object = impl == 0 && dtype < 0 ? kUndefined : impl;
  out.put(object != 0 ? objects_.id(object, life(tensors_.tensor_id[row]), next_id_) : 0, ',');
  const bool has_storage = tensors_.storage_impl[row] != 0;
  if (!has_storage && impl != 0) return out.put("0,0,0,0,\"\"]");
  if (dtype < 0) return out.put("0,0,0,0,\"\"]");
  out.put(has_storage ? objects_.id(tensors_.storage[row], life(tensors_.allocation_id[row]), next_id_) : 0,
          ',', tensors_.storage_offset[row], ',');
  uint64_t count = 1;
  for (const int64_t size : tensors_.sizes[row]) count *= static_cast<uint64_t>(size);
  out.put(count, ',');
  const auto code = static_cast<size_t>(dtype);
  out.put(code < names_.itemsizes.size() ? names_.itemsizes[code] : 0, ",\"");
  write_device(out, row);
  out.put("\"]");
}

void ValueWriter::write_device(TextBuffer& out, size_t row) const {
  const auto type = static_cast<size_t>(tensors_.device_type[row]);
  if (type < names_.devices.size()) out.put(names_.devices[type]);
  if (tensors_.device_index[row] < 0) return;
  out.put(':', tensors_.device_index[row]);
}

void ValueWriter::write_tensor_type(TextBuffer& out, size_t row) const {
  const int8_t known = tensors_.dtype[row];
  const auto dtype = static_cast<size_t>(known >= 0 ? known : tensors_.unsized_dtype[row]);
  out.put("Tensor(");
  if (dtype < names_.dtypes.size()) {
    out.put(names_.dtypes[dtype]);
  } else {
    out.put("nullptr (uninitialized)");
  }
  out.put(')');
}

void ValueWriter::write_scalar(TextBuffer& out, Part part, size_t row) {
  const ScalarText& text = scalar_text(scalars_.type[row], scalars_.value[row]);
  switch (part) {
    case Part::kValues:
      return out.put(text.value);
    case Part::kTypes:
      return out.put(text.type);
    case Part::kShapes:
    case Part::kStrides:
      break;
  }
  out.put('[');
  for (int64_t i = 0; i < text.count; ++i) {
    if (i == 0) {
      out.put("[]");
    } else {
      out.put(",[]");
    }
  }
  out.put(']');
}

// Formats each scalar once: most spans have the same few.
const ValueWriter::ScalarText& ValueWriter::scalar_text(uint8_t type, int32_t name) {
  const uint64_t key = static_cast<uint64_t>(type) << 32 | static_cast<uint32_t>(name);
  const auto [entry, is_new] = scalar_texts_.try_emplace(key);
  ScalarText& result = entry->second;
  if (!is_new) return result;
  const std::string_view text = texts_[name];
  const std::string_view kind = kind_name(type);
  result = {{}, std::string(kind), -1};
  switch (type) {
    case ScalarType::kInt:
    case ScalarType::kFloat:
      result.value = number_json(text);
      return result;
    case ScalarType::kBool:
      result.value = bool_json(text);
      return result;
    case ScalarType::kString:
    case ScalarType::kDevice:
      result.value = quoted(text);
      return result;
    case ScalarType::kNone:
    case ScalarType::kComplex:
      result.value = quoted("<" + result.type + ">");
      return result;
    default:
      break;
  }
  if (type > ScalarType::kOtherList) {  // an object without a text form; its text names it
    if (!text.empty()) result.type = text.starts_with("ProcessGroup ") ? "Object" : text;
    result.value = quoted("<" + result.type + ">");
    return result;
  }
  result.count = 0;
  result.value = "[";
  result.type = "GenericList[";
  std::string_view rest = trimmed(text);
  if (rest.size() >= 2 && rest.front() == '[') rest = rest.substr(1, rest.size() - 2);
  if (type == ScalarType::kTensorList || type == ScalarType::kOtherList) rest = {};
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view element = trimmed(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (element.empty() || element == "...") continue;  // cut when it was recorded
    if (result.count++ != 0) {
      result.value.push_back(',');
      result.type.push_back(',');
    }
    const uint8_t element_type = type_of_element(type, element);
    result.value += element_type == ScalarType::kBool ? bool_json(element) : number_json(element);
    result.type += kind_name(element_type);
  }
  result.value.push_back(']');
  result.type.push_back(']');
  return result;
}

}  // namespace opscope::writers
