#include "decode/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace opscope {

namespace {

void append_int(std::string& text, int64_t number) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  text.append(digits, end);
}

double as_double(uint64_t bits) {
  double number;
  std::memcpy(&number, &bits, sizeof(number));
  return number;
}

std::string_view text_at(const uint64_t* word) {
  return {reinterpret_cast<const char*>(word + 1), detail_of(*word)};
}
size_t text_words(const uint64_t* word) { return 1 + (detail_of(*word) + 7) / 8; }

int64_t int_at(const uint64_t* word) {
  return tag_of(*word) == Tag::kInt ? short_int_of(*word) : static_cast<int64_t>(word[1]);
}
size_t int_words(const uint64_t* word) { return tag_of(*word) == Tag::kInt ? 1 : 2; }

void append_json_string(std::string& text, std::string_view value) {
  text.push_back('"');
  for (const char c : value) {
    if (c == '"' || c == '\\') text.push_back('\\');
    if (static_cast<unsigned char>(c) >= 0x20) {
      text.push_back(c);
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
      text.append(escaped);
    }
  }
  text.push_back('"');
}

// JSON knows neither "1." nor an infinity.
void append_json_double(std::string& text, double number) {
  if (!std::isfinite(number)) {
    text.push_back('"');
    append_double(text, number);
    text.push_back('"');
    return;
  }
  append_double(text, number);
  if (text.back() == '.') text.push_back('0');
}

// Numbers of devices are part of torch's serialisation format and do not change.
std::string_view device_name(uint8_t type) {
  return type < std::size(kDeviceNames) ? kDeviceNames[type] : "unknown";
}

void append_device(std::string& text, uint64_t detail) {
  text.append(device_name(static_cast<uint8_t>(detail)));
  const auto index = static_cast<int8_t>(detail >> 8);
  if (index < 0) return;
  text.push_back(':');
  append_int(text, index);
}

// Words of a number, 0 for anything else.
size_t number_words(const uint64_t* word) {
  switch (tag_of(*word)) {
    case Tag::kInt:
    case Tag::kBool:
      return 1;
    case Tag::kLongInt:
    case Tag::kDouble:
      return 2;
    case Tag::kComplex:
      return 3;
    default:
      return 0;
  }
}

ScalarType type_of_number(const uint64_t* word) {
  switch (tag_of(*word)) {
    case Tag::kBool:
      return ScalarType::kBool;
    case Tag::kDouble:
      return ScalarType::kFloat;
    case Tag::kComplex:
      return ScalarType::kComplex;
    default:
      return ScalarType::kInt;
  }
}

// As torch prints it: a complex number is "1.-2.j".
void append_number(std::string& text, const uint64_t* word) {
  switch (tag_of(*word)) {
    case Tag::kBool:
      text += detail_of(*word) != 0 ? "True" : "False";
      break;
    case Tag::kDouble:
      append_double(text, as_double(word[1]));
      break;
    case Tag::kComplex: {
      const double imaginary = as_double(word[2]);
      append_double(text, as_double(word[1]));
      text += imaginary >= 0 ? "+" : "-";
      append_double(text, std::abs(imaginary));
      text += "j";
      break;
    }
    default:
      append_int(text, int_at(word));
  }
}

// A kTensor, kUndefined or kNone entry.
struct PackedTensor {
  explicit PackedTensor(const uint64_t* word)
      : is_defined(tag_of(*word) == Tag::kTensor),
        detail(is_defined ? unpack_tensor(detail_of(*word)) : undefined(tag_of(*word))),
        has_sizes((detail.flags & kNoSizes) == 0),
        addresses(word + 1) {}

  static TensorDetail undefined(Tag tag) {
    const int8_t layout = tag == Tag::kNone ? -1 : 0;
    return {-1, static_cast<uint8_t>(layout), 0, -1, 0, 0};
  }
  int64_t number(size_t index) const { return read_number(numbers(), index, detail.flags); }
  const uint64_t* numbers() const { return addresses + kTensorAddresses; }

  bool is_defined;
  TensorDetail detail;
  bool has_sizes;
  const uint64_t* addresses;
};

// What tensors and parameters both have. Returns the word after the entry.
template <typename Table>
const uint64_t* write_shape(Table& t, const PackedTensor& tensor) {
  t.dtype.push_back(tensor.has_sizes ? tensor.detail.dtype : -1);
  t.layout.push_back(static_cast<int8_t>(tensor.detail.layout));
  t.device_type.push_back(static_cast<int8_t>(tensor.detail.device_type));
  t.device_index.push_back(tensor.detail.device_index);
  t.impl.push_back(tensor.is_defined ? tensor.addresses[0] : 0);
  t.storage.push_back(tensor.is_defined ? tensor.addresses[2] : 0);
  const size_t count = count_numbers(tensor.detail.dim, tensor.detail.flags);
  for (size_t i = 2; i < count; ++i) {
    ListColumn& list = i < 2u + tensor.detail.dim ? t.sizes : t.strides;
    list.values.push_back(tensor.number(i));
  }
  t.sizes.end_row();
  t.strides.end_row();
  if (!tensor.is_defined) return tensor.addresses;
  return tensor.numbers() + words_of_numbers(count, tensor.detail.flags);
}

}  // namespace

void append_double(std::string& text, double number) {
  if (std::isfinite(number) && std::abs(number) < 9.2e18 &&
      static_cast<double>(static_cast<int64_t>(number)) == number) {
    append_int(text, static_cast<int64_t>(number));
    text.push_back('.');
    return;
  }
  char digits[40];
  std::snprintf(digits, sizeof(digits), "%.17g", number);
  text.append(digits);
}

PayloadPlace ArenaCursor::at(uint32_t position) {
  if (position == kCutArena) return {};
  const uint32_t sequence = position >> kArenaWordBits;
  const uint32_t mask = (1u << (32 - kArenaWordBits)) - 1;
  const auto found =
      std::find_if(block_, end_, [=](const auto* b) { return (b->header.sequence & mask) == sequence; });
  if (found == end_) return {};  // those after it may be there
  block_ = found;
  return {(*block_)->words + (position & ((1u << kArenaWordBits) - 1)), block_, end_};
}

const uint64_t* ArgumentWriter::follow(const uint64_t* word) {
  static constexpr uint64_t kNothing = make_tag(Tag::kNone);
  while (tag_of(*word) == Tag::kContinued) {
    if (++place_.block >= place_.end) return &kNothing;
    word = (*place_.block)->words;
  }
  return word;
}

bool ArgumentWriter::is_list_of_numbers(const uint64_t* word) {
  const PayloadPlace before = place_;
  size_t words = 1;
  for (uint64_t count = detail_of(*word++) >> 1; count > 0 && words != 0; --count) {
    word = follow(word);
    words = number_words(word);
    word += words;
  }
  place_ = before;
  return words != 0;
}

void ArgumentWriter::write(const PayloadPlace& place, int32_t event, bool output) {
  place_ = place;
  const uint64_t* payload = place.word;
  if (payload == nullptr) {
    ++out_.cut_payloads;
    return;
  }
  const uint64_t head = *payload++;
  event_ = event;
  keyword_ = -1;
  role_ = output ? Role::kOutput : Role::kInput;
  for (uint32_t i = 0; i < head_positional(head); ++i) {
    argument_ = static_cast<int16_t>(std::min<uint32_t>(i, INT16_MAX));
    payload = write_value(follow(payload));
  }
  role_ = Role::kKeyword;
  argument_ = -1;
  for (uint32_t i = 0; i < head_keywords(head); ++i) {
    payload = follow(payload);
    keyword_ = out_.names.add(text_at(payload));
    payload = write_value(follow(payload + text_words(payload)));
  }
}

void ArgumentWriter::write_parameters(const PayloadPlace& place, int32_t module, int32_t optimizer,
                                      int64_t time_ns) {
  place_ = place;
  const uint64_t* payload = place.word;
  if (payload == nullptr) {
    ++out_.cut_payloads;
    return;
  }
  const uint32_t count = head_positional(*payload++);
  for (uint32_t i = 0; i < count; ++i) {
    payload = follow(payload);
    out_.parameters.name.push_back(out_.names.add(text_at(payload)));
    payload += text_words(payload);
    out_.parameters.role.push_back(static_cast<uint8_t>(payload[1]));
    out_.parameters.parameter.push_back(static_cast<int32_t>(payload[1] >> 8));
    out_.parameters.module.push_back(module);
    out_.parameters.optimizer.push_back(optimizer);
    out_.parameters.time_ns.push_back(time_ns);
    payload = write_shape(out_.parameters, PackedTensor(payload + 2));
  }
}

const uint64_t* ArgumentWriter::write_value(const uint64_t* word) {
  const uint64_t detail = detail_of(*word);
  text_.clear();
  switch (tag_of(*word)) {
    case Tag::kTensor:
    case Tag::kUndefined:
      return write_tensor(word, -1);
    case Tag::kTensorList:
      return write_tensor_list(word);
    case Tag::kIntList:
    case Tag::kDoubleList:
    case Tag::kBoolList:
      return write_list(word);
    case Tag::kInt:
    case Tag::kLongInt:
    case Tag::kDouble:
    case Tag::kComplex:
    case Tag::kBool:
      append_number(text_, word);
      write_scalar(type_of_number(word), text_);
      return word + number_words(word);
    case Tag::kString:
      write_scalar(ScalarType::kString, text_at(word));
      return word + text_words(word);
    case Tag::kOther:
      write_scalar(ScalarType::kOther, text_at(word));
      return word + text_words(word);
    case Tag::kSequence:
      return write_sequence(word);
    case Tag::kDevice:
      append_device(text_, detail);
      write_scalar(ScalarType::kDevice, text_);
      return word + 1;
    case Tag::kOtherList:
      write_scalar(ScalarType::kOtherList, detail == 0 ? "[]" : "");
      return word + 1;
    case Tag::kNone:
      write_scalar(ScalarType::kNone, "");
      return word + 1;
    case Tag::kContinued:  // followed already
      break;
  }
  write_scalar(ScalarType::kOther, "");
  return word + 1;
}

const uint64_t* ArgumentWriter::write_list(const uint64_t* word) {
  const uint64_t detail = detail_of(*word);
  const size_t kept = detail & 0xffffff;
  const size_t full = detail >> 24;
  const Tag tag = tag_of(*word);
  text_ = "[";
  for (size_t i = 0; i < kept; ++i) {
    if (i != 0) text_ += ", ";
    const uint64_t bits = word[1 + i];
    if (tag == Tag::kIntList) append_int(text_, static_cast<int64_t>(bits));
    if (tag == Tag::kDoubleList) append_double(text_, as_double(bits));
    if (tag == Tag::kBoolList) text_ += bits != 0 ? "True" : "False";
  }
  text_ += full > kept ? ", ...]" : "]";
  write_scalar(tag == Tag::kIntList      ? ScalarType::kIntList
               : tag == Tag::kDoubleList ? ScalarType::kFloatList
                                         : ScalarType::kBoolList,
               text_);
  return word + 1 + kept;
}

const uint64_t* ArgumentWriter::write_tensor_list(const uint64_t* word) {
  const uint64_t count = detail_of(*word++);
  if (count == 0) write_scalar(ScalarType::kTensorList, "[]");
  for (uint64_t i = 0; i < count; ++i) word = write_tensor(follow(word), static_cast<int32_t>(i));
  return word;
}

const uint64_t* ArgumentWriter::write_sequence(const uint64_t* word) {
  const bool is_tuple = (detail_of(*word) & 1) != 0;
  if (!is_tuple && is_list_of_numbers(word)) return write_list_of_numbers(word);
  const uint8_t role = role_;
  role_ = role == Role::kOutput ? Role::kOutputPart : Role::kInputPart;
  part_ = 0;
  word = describe(word);
  role_ = role;
  write_scalar(is_tuple ? ScalarType::kOther : ScalarType::kOtherList, text_);
  return word;
}

// A list of Scalar, whose elements each have a type of their own.
const uint64_t* ArgumentWriter::write_list_of_numbers(const uint64_t* word) {
  const uint64_t count = detail_of(*word++) >> 1;
  bool whole = true;
  text_ = "[";
  for (uint64_t i = 0; i < count; ++i) {
    word = follow(word);
    if (i != 0) text_ += ", ";
    whole = whole && type_of_number(word) == ScalarType::kInt;
    append_number(text_, word);
    word += number_words(word);
  }
  text_ += "]";
  write_scalar(whole ? ScalarType::kIntList : ScalarType::kFloatList, text_);
  return word;
}

const uint64_t* ArgumentWriter::describe(const uint64_t* word) {
  const uint64_t detail = detail_of(*word);
  switch (tag_of(*word)) {
    case Tag::kTensor:
    case Tag::kUndefined:
      text_ += "\"Tensor\"";
      return write_tensor(word, part_++);
    case Tag::kTensorList:
      return describe_each(word + 1, detail, "GenericList");
    case Tag::kSequence:
      return describe_each(word + 1, detail >> 1, (detail & 1) != 0 ? "Tuple" : "GenericList");
    case Tag::kIntList:
    case Tag::kDoubleList:
    case Tag::kBoolList:
      return describe_list(word);
    case Tag::kInt:
    case Tag::kLongInt:
      text_ += "{\"Int\":";
      append_int(text_, int_at(word));
      text_ += "}";
      return word + int_words(word);
    case Tag::kDouble:
      text_ += "{\"Double\":";
      append_json_double(text_, as_double(word[1]));
      text_ += "}";
      return word + 2;
    case Tag::kBool:
      text_ += detail != 0 ? "{\"Bool\":true}" : "{\"Bool\":false}";
      return word + 1;
    case Tag::kString:
      text_ += "{\"String\":";
      append_json_string(text_, text_at(word));
      text_ += "}";
      return word + text_words(word);
    case Tag::kDevice:
      text_ += "{\"Device\":\"";
      append_device(text_, detail);
      text_ += "\"}";
      return word + 1;
    case Tag::kComplex:
      text_ += "{\"ComplexDouble\":[";
      append_json_double(text_, as_double(word[1]));
      text_ += ",";
      append_json_double(text_, as_double(word[2]));
      text_ += "]}";
      return word + 3;
    case Tag::kOther:
      text_ += "{";
      append_json_string(text_, text_at(word));
      text_ += ":null}";
      return word + text_words(word);
    case Tag::kOtherList:
      text_ += "{\"GenericList\":[]}";
      return word + 1;
    case Tag::kNone:
    case Tag::kContinued:
      break;
  }
  text_ += "{\"None\":null}";
  return word + 1;
}

const uint64_t* ArgumentWriter::describe_each(const uint64_t* word, uint64_t count, std::string_view kind) {
  text_.append("{\"").append(kind).append("\":[");
  for (uint64_t i = 0; i < count; ++i) {
    if (i != 0) text_ += ",";
    word = describe(follow(word));
  }
  text_ += "]}";
  return word;
}

const uint64_t* ArgumentWriter::describe_list(const uint64_t* word) {
  const size_t kept = detail_of(*word) & 0xffffff;
  const Tag tag = tag_of(*word);
  text_ += "{\"GenericList\":[";
  for (size_t i = 0; i < kept; ++i) {
    const uint64_t bits = word[1 + i];
    if (i != 0) text_ += ",";
    text_ += tag == Tag::kIntList ? "{\"Int\":" : tag == Tag::kDoubleList ? "{\"Double\":" : "{\"Bool\":";
    if (tag == Tag::kIntList) append_int(text_, static_cast<int64_t>(bits));
    if (tag == Tag::kDoubleList) append_json_double(text_, as_double(bits));
    if (tag == Tag::kBoolList) text_ += bits != 0 ? "true" : "false";
    text_ += "}";
  }
  text_ += "]}";
  return word + 1 + kept;
}

const uint64_t* ArgumentWriter::write_tensor(const uint64_t* word, int32_t element) {
  TensorColumns& t = out_.tensors;
  const PackedTensor tensor(word);
  const bool has_version = tensor.is_defined && (tensor.detail.flags & kNoVersion) == 0;
  t.event.push_back(event_);
  t.argument.push_back(argument_);
  t.element.push_back(element);
  t.role.push_back(role_);
  t.keyword.push_back(keyword_);
  t.unsized_dtype.push_back(tensor.has_sizes ? -1 : tensor.detail.dtype);
  t.requires_grad.push_back((tensor.detail.flags & kRequiresGrad) != 0);
  t.is_wrapped_number.push_back((tensor.detail.flags & kWrappedNumber) != 0);
  t.storage_impl.push_back(tensor.is_defined ? tensor.addresses[1] : 0);
  t.storage_offset.push_back(tensor.is_defined ? tensor.number(0) : 0);
  t.version.push_back(has_version ? tensor.number(1) : -1);
  return write_shape(t, tensor);
}

void ArgumentWriter::write_scalar(uint8_t type, std::string_view text) {
  ScalarColumns& s = out_.scalars;
  s.event.push_back(event_);
  s.argument.push_back(argument_);
  s.role.push_back(role_);
  s.keyword.push_back(keyword_);
  s.type.push_back(type);
  s.value.push_back(out_.names.add(text));
}

}  // namespace opscope
