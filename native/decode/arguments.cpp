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

// JSON has neither "1." nor infinity.
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

// Device numbers are part of torch's serialisation format and do not change.
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

bool is_number(Tag tag) {
  return tag == Tag::kInt || tag == Tag::kBool || tag == Tag::kLongInt || tag == Tag::kDouble ||
         tag == Tag::kComplex;
}

ScalarType type_of_number(Tag tag) {
  switch (tag) {
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

int64_t take_int(PayloadReader& payload, uint64_t word) {
  return tag_of(word) == Tag::kInt ? short_int_of(word) : static_cast<int64_t>(*payload.take(1));
}

// In torch's format: a complex number is "1.-2.j".
void append_number(std::string& text, PayloadReader& payload, uint64_t word) {
  switch (tag_of(word)) {
    case Tag::kBool:
      text += detail_of(word) != 0 ? "True" : "False";
      break;
    case Tag::kDouble:
      append_double(text, as_double(*payload.take(1)));
      break;
    case Tag::kComplex: {
      const uint64_t* const parts = payload.take(2);
      const double imaginary = as_double(parts[1]);
      append_double(text, as_double(parts[0]));
      text += imaginary >= 0 ? "+" : "-";
      append_double(text, std::abs(imaginary));
      text += "j";
      break;
    }
    default:
      append_int(text, take_int(payload, word));
  }
}

// Header and numbers of a packed list.
struct PackedList {
  PackedList(PayloadReader& payload, uint64_t word)
      : tag(tag_of(word)),
        kept(detail_of(word) & 0xffffff),
        full(detail_of(word) >> 24),
        numbers(payload.take(kept)) {}

  Tag tag;
  size_t kept;
  size_t full;
  const uint64_t* numbers;
};

struct PackedTensor {
  PackedTensor(PayloadReader& payload, uint64_t word)
      : is_defined(tag_of(word) == Tag::kTensor),
        detail(is_defined ? unpack_tensor(detail_of(word)) : undefined(tag_of(word))),
        has_sizes((detail.flags & kNoSizes) == 0),
        count(count_numbers(detail.dim, detail.flags)) {
    if (!is_defined) return;
    addresses = payload.take(kTensorAddresses);
    numbers = payload.take(words_of_numbers(count, detail.flags));
  }

  static TensorDetail undefined(Tag tag) {
    require(tag == Tag::kUndefined || tag == Tag::kNone, "a tensor argument has data of another kind");
    const int8_t layout = tag == Tag::kNone ? -1 : 0;
    return {-1, static_cast<uint8_t>(layout), 0, -1, 0, 0};
  }
  int64_t number(size_t index) const { return read_number(numbers, index, detail.flags); }

  bool is_defined;
  TensorDetail detail;
  bool has_sizes;
  size_t count;  // of numbers
  const uint64_t* addresses = nullptr;
  const uint64_t* numbers = nullptr;
};

// Columns that the tables of tensors and parameters share.
template <typename Table>
void write_shape(Table& t, const PackedTensor& tensor) {
  t.dtype.push_back(tensor.has_sizes ? tensor.detail.dtype : -1);
  t.layout.push_back(static_cast<int8_t>(tensor.detail.layout));
  t.device_type.push_back(static_cast<int8_t>(tensor.detail.device_type));
  t.device_index.push_back(tensor.detail.device_index);
  t.impl.push_back(tensor.is_defined ? tensor.addresses[0] : 0);
  t.storage.push_back(tensor.is_defined ? tensor.addresses[2] : 0);
  for (size_t i = 2; i < tensor.count; ++i) {
    ListColumn& list = i < 2u + tensor.detail.dim ? t.sizes : t.strides;
    list.values.push_back(tensor.number(i));
  }
  t.sizes.end_row();
  t.strides.end_row();
}

// Reads a copy of `payload`, so the caller's position stays.
bool is_list_of_numbers(PayloadReader payload, uint64_t word) {
  for (uint64_t left = detail_of(word) >> 1; left > 0; --left) {
    const uint64_t element = payload.next();
    if (!is_number(tag_of(element))) return false;
    if (tag_of(element) == Tag::kComplex) payload.take(2);
    if (tag_of(element) == Tag::kDouble || tag_of(element) == Tag::kLongInt) payload.take(1);
  }
  return true;
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

bool Payloads::find(uint32_t position) {
  if (position == kCutArena) return false;
  const uint32_t sequence = position >> kArenaWordBits;
  const uint32_t mask = (1u << (32 - kArenaWordBits)) - 1;
  const auto found =
      std::find_if(block_, end_, [=](const auto* b) { return (b->header.sequence & mask) == sequence; });
  if (found == end_) return false;  // payloads after it may still be there
  block_ = found;
  return true;
}

void ArgumentWriter::write(PayloadReader& payload, int32_t event, bool output) {
  const uint64_t head = *payload.take(1);
  event_ = event;
  keyword_ = -1;
  depth_ = 0;
  role_ = output ? Role::kOutput : Role::kInput;
  for (uint32_t i = 0; i < head_positional(head); ++i) {
    argument_ = static_cast<int16_t>(std::min<uint32_t>(i, INT16_MAX));
    write_value(payload, payload.next());
  }
  role_ = Role::kKeyword;
  argument_ = -1;
  for (uint32_t i = 0; i < head_keywords(head); ++i) {
    keyword_ = out_.names.add(payload.take_text(payload.next()));
    write_value(payload, payload.next());
  }
}

void ArgumentWriter::write_parameters(PayloadReader& payload, int32_t module, int32_t optimizer,
                                      int64_t time_ns) {
  const uint32_t count = head_positional(*payload.take(1));
  for (uint32_t i = 0; i < count; ++i) {
    const std::string_view name = payload.take_text(payload.next());
    const uint64_t parameter = payload.take(2)[1];  // after the tag of a kLongInt
    const PackedTensor tensor(payload, *payload.take(1));
    out_.parameters.name.push_back(out_.names.add(name));
    out_.parameters.role.push_back(static_cast<uint8_t>(parameter));
    out_.parameters.parameter.push_back(static_cast<int32_t>(parameter >> 8));
    out_.parameters.module.push_back(module);
    out_.parameters.optimizer.push_back(optimizer);
    out_.parameters.time_ns.push_back(time_ns);
    write_shape(out_.parameters, tensor);
  }
}

void ArgumentWriter::write_value(PayloadReader& payload, uint64_t word) {
  const uint64_t detail = detail_of(word);
  text_.clear();
  switch (tag_of(word)) {
    case Tag::kTensor:
    case Tag::kUndefined:
      return write_tensor(payload, word, -1);
    case Tag::kTensorList:
      return write_tensor_list(payload, word);
    case Tag::kIntList:
    case Tag::kDoubleList:
    case Tag::kBoolList:
      return write_list(payload, word);
    case Tag::kInt:
    case Tag::kLongInt:
    case Tag::kDouble:
    case Tag::kComplex:
    case Tag::kBool:
      append_number(text_, payload, word);
      return write_scalar(type_of_number(tag_of(word)), text_);
    case Tag::kString:
      return write_scalar(ScalarType::kString, payload.take_text(word));
    case Tag::kOther:
      return write_scalar(ScalarType::kOther, payload.take_text(word));
    case Tag::kSequence:
      return write_sequence(payload, word);
    case Tag::kDevice:
      append_device(text_, detail);
      return write_scalar(ScalarType::kDevice, text_);
    case Tag::kOtherList:
      return write_scalar(ScalarType::kOtherList, detail == 0 ? "[]" : "");
    case Tag::kNone:
      return write_scalar(ScalarType::kNone, "");
    case Tag::kContinued:  // next() has followed the link
      break;
  }
  throw Damage("an argument has an unknown kind");
}

void ArgumentWriter::write_list(PayloadReader& payload, uint64_t word) {
  const PackedList list(payload, word);
  text_ = "[";
  for (size_t i = 0; i < list.kept; ++i) {
    if (i != 0) text_ += ", ";
    const uint64_t bits = list.numbers[i];
    if (list.tag == Tag::kIntList) append_int(text_, static_cast<int64_t>(bits));
    if (list.tag == Tag::kDoubleList) append_double(text_, as_double(bits));
    if (list.tag == Tag::kBoolList) text_ += bits != 0 ? "True" : "False";
  }
  text_ += list.full > list.kept ? ", ...]" : "]";
  write_scalar(list.tag == Tag::kIntList      ? ScalarType::kIntList
               : list.tag == Tag::kDoubleList ? ScalarType::kFloatList
                                              : ScalarType::kBoolList,
               text_);
}

void ArgumentWriter::write_tensor_list(PayloadReader& payload, uint64_t word) {
  const uint64_t count = detail_of(word);
  if (count == 0) write_scalar(ScalarType::kTensorList, "[]");
  for (uint64_t i = 0; i < count; ++i) write_tensor(payload, payload.next(), static_cast<int32_t>(i));
}

void ArgumentWriter::write_sequence(PayloadReader& payload, uint64_t word) {
  const bool is_tuple = (detail_of(word) & 1) != 0;
  if (!is_tuple && is_list_of_numbers(payload, word)) return write_list_of_numbers(payload, word);
  const uint8_t role = role_;
  role_ = role == Role::kOutput ? Role::kOutputPart : Role::kInputPart;
  part_ = 0;
  describe(payload, word);
  role_ = role;
  write_scalar(is_tuple ? ScalarType::kOther : ScalarType::kOtherList, text_);
}

// A list of Scalar: each element has its own type.
void ArgumentWriter::write_list_of_numbers(PayloadReader& payload, uint64_t word) {
  const uint64_t count = detail_of(word) >> 1;
  bool whole = true;
  text_ = "[";
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t element = payload.next();
    if (i != 0) text_ += ", ";
    whole = whole && type_of_number(tag_of(element)) == ScalarType::kInt;
    append_number(text_, payload, element);
  }
  text_ += "]";
  write_scalar(whole ? ScalarType::kIntList : ScalarType::kFloatList, text_);
}

void ArgumentWriter::describe(PayloadReader& payload, uint64_t word) {
  const uint64_t detail = detail_of(word);
  switch (tag_of(word)) {
    case Tag::kTensor:
    case Tag::kUndefined:
      text_ += "\"Tensor\"";
      return write_tensor(payload, word, part_++);
    case Tag::kTensorList:
      return describe_each(payload, detail, "GenericList");
    case Tag::kSequence:
      return describe_each(payload, detail >> 1, (detail & 1) != 0 ? "Tuple" : "GenericList");
    case Tag::kIntList:
    case Tag::kDoubleList:
    case Tag::kBoolList:
      return describe_list(payload, word);
    case Tag::kInt:
    case Tag::kLongInt:
      text_ += "{\"Int\":";
      append_int(text_, take_int(payload, word));
      text_ += "}";
      return;
    case Tag::kDouble:
      text_ += "{\"Double\":";
      append_json_double(text_, as_double(*payload.take(1)));
      text_ += "}";
      return;
    case Tag::kBool:
      text_ += detail != 0 ? "{\"Bool\":true}" : "{\"Bool\":false}";
      return;
    case Tag::kString:
      text_ += "{\"String\":";
      append_json_string(text_, payload.take_text(word));
      text_ += "}";
      return;
    case Tag::kDevice:
      text_ += "{\"Device\":\"";
      append_device(text_, detail);
      text_ += "\"}";
      return;
    case Tag::kComplex: {
      const uint64_t* const parts = payload.take(2);
      text_ += "{\"ComplexDouble\":[";
      append_json_double(text_, as_double(parts[0]));
      text_ += ",";
      append_json_double(text_, as_double(parts[1]));
      text_ += "]}";
      return;
    }
    case Tag::kOther:
      text_ += "{";
      append_json_string(text_, payload.take_text(word));
      text_ += ":null}";
      return;
    case Tag::kOtherList:
      text_ += "{\"GenericList\":[]}";
      return;
    case Tag::kNone:
      text_ += "{\"None\":null}";
      return;
    case Tag::kContinued:
      break;
  }
  throw Damage("an argument has an unknown kind");
}

// The deepest allowed sequence may contain a list of tensors.
void ArgumentWriter::describe_each(PayloadReader& payload, uint64_t count, std::string_view kind) {
  require(depth_ <= kMaxSequenceDepth, "sequences are nested deeper than opscope records");
  ++depth_;
  text_.append("{\"").append(kind).append("\":[");
  for (uint64_t i = 0; i < count; ++i) {
    if (i != 0) text_ += ",";
    describe(payload, payload.next());
  }
  text_ += "]}";
  --depth_;
}

void ArgumentWriter::describe_list(PayloadReader& payload, uint64_t word) {
  const PackedList list(payload, word);
  text_ += "{\"GenericList\":[";
  for (size_t i = 0; i < list.kept; ++i) {
    const uint64_t bits = list.numbers[i];
    if (i != 0) text_ += ",";
    text_ += list.tag == Tag::kIntList      ? "{\"Int\":"
             : list.tag == Tag::kDoubleList ? "{\"Double\":"
                                            : "{\"Bool\":";
    if (list.tag == Tag::kIntList) append_int(text_, static_cast<int64_t>(bits));
    if (list.tag == Tag::kDoubleList) append_json_double(text_, as_double(bits));
    if (list.tag == Tag::kBoolList) text_ += bits != 0 ? "true" : "false";
    text_ += "}";
  }
  text_ += "]}";
}

void ArgumentWriter::write_tensor(PayloadReader& payload, uint64_t word, int32_t element) {
  TensorColumns& t = out_.tensors;
  const PackedTensor tensor(payload, word);
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
  write_shape(t, tensor);
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
