// Part of torch_bridge.cpp: arguments of a span, in the format of payload.h.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <torch/csrc/profiler/util.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include "log/arena.h"
#include "log/payload.h"
#include "log/thread_log.h"
#include "torch/torch_tensors.h"

namespace opscope {
namespace {

bool put_words(Arena& arena, uint64_t tag, const void* bytes, size_t words, size_t byte_count) {
  uint64_t* word = arena.reserve(1 + words);
  if (word == nullptr) return false;
  word[0] = tag;
  if (words != 0) {
    word[words] = 0;  // padding of the last word
    std::memcpy(word + 1, bytes, byte_count);
  }
  arena.advance(1 + words);
  return true;
}

bool put_text(Arena& arena, Tag tag, std::string_view text) {
  const size_t bytes = std::min(text.size(), kMaxStringBytes);
  return put_words(arena, make_tag(tag, bytes), text.data(), (bytes + 7) / 8, bytes);
}

bool put_tag(Arena& arena, Tag tag, uint64_t detail = 0) {
  return put_words(arena, make_tag(tag, detail), nullptr, 0, 0);
}

uint64_t bits_of(const c10::IValue& element) {
  if (element.isDouble()) {
    const double number = element.toDouble();
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    return bits;
  }
  return element.isBool() ? element.toBool() : static_cast<uint64_t>(element.toInt());
}

using Values = c10::ArrayRef<c10::IValue>;

bool put_numbers(Arena& arena, Tag tag, Values list) {
  const size_t kept = std::min(list.size(), kMaxListElements);
  uint64_t* word = arena.reserve(1 + kept);
  if (word == nullptr) return false;
  word[0] = make_tag(tag, kept | static_cast<uint64_t>(list.size()) << 24);
  for (size_t i = 0; i < kept; ++i) word[1 + i] = bits_of(list[i]);
  arena.advance(1 + kept);
  return true;
}

bool put_tensor_list(Arena& arena, Values list) {
  if (!put_tag(arena, Tag::kTensorList, list.size())) return false;
  for (const c10::IValue& item : list) {
    if (!put_tensor(arena, item.toTensor())) return false;
  }
  return true;
}

bool put_value(Arena& arena, const c10::IValue& value, int depth = 0);

bool put_sequence(Arena& arena, Values values, bool is_tuple, int depth) {
  const size_t kept = std::min<size_t>(values.size(), kMaxListElements);
  if (!put_tag(arena, Tag::kSequence, (is_tuple ? 1 : 0) | static_cast<uint64_t>(kept) << 1)) return false;
  for (size_t i = 0; i < kept; ++i) {
    if (!put_value(arena, values[i], depth + 1)) return false;
  }
  return true;
}

// Reads elements in place: torch's accessors for lists of numbers copy them.
bool put_list(Arena& arena, const c10::IValue& value, int depth) {
  const Values list = value.toListRef();
  // Tests for a list of tensors first if the first element is one: a failed test of a list's type is slow.
  if (!list.empty() && list[0].isTensor() && value.isTensorList()) return put_tensor_list(arena, list);
  if (value.isIntList()) return put_numbers(arena, Tag::kIntList, list);
  if (value.isTensorList()) return put_tensor_list(arena, list);
  if (value.isDoubleList()) return put_numbers(arena, Tag::kDoubleList, list);
  if (value.isBoolList()) return put_numbers(arena, Tag::kBoolList, list);
  if (list.empty()) return put_tag(arena, Tag::kOtherList);
  return put_sequence(arena, list, /*is_tuple=*/false, depth);
}

bool put_int(Arena& arena, int64_t number) {
  if (is_short_int(number)) [[likely]]
    return put_tag(arena, Tag::kInt, short_int(number));
  return put_words(arena, make_tag(Tag::kLongInt), &number, 1, sizeof(number));
}

// Records other values as torch's name for their kind. A process group also has its address, so that traces
// can distinguish groups.
bool put_other(Arena& arena, const c10::IValue& value) {
  if (!value.isObject()) return put_text(arena, Tag::kOther, value.tagKind());
  const c10::ivalue::Object& object = value.toObjectRef();
  if (object.name() != "__torch__.torch.classes.c10d.ProcessGroup" || object.slots().empty() ||
      !object.getSlot(0).isCapsule()) {
    return put_text(arena, Tag::kOther, "Object");
  }
  char text[40];
  const void* const group = object.getSlot(0).toCapsule().get();
  const int length = std::snprintf(text, sizeof(text), "ProcessGroup %p", group);
  return put_text(arena, Tag::kOther, {text, static_cast<size_t>(length)});
}

bool put_value(Arena& arena, const c10::IValue& value, int depth) {
  if (value.isTensor()) return put_tensor(arena, value.toTensor());
  if (value.isNone()) return put_tag(arena, Tag::kNone);
  if (value.isInt()) return put_int(arena, value.toInt());
  if (value.isBool()) return put_tag(arena, Tag::kBool, value.toBool());
  if (value.isDouble()) {
    const double number = value.toDouble();
    return put_words(arena, make_tag(Tag::kDouble), &number, 1, sizeof(number));
  }
  if (value.isList() && depth < kMaxSequenceDepth) return put_list(arena, value, depth);
  if (value.isDevice()) {
    const c10::Device device = value.toDevice();
    return put_tag(arena, Tag::kDevice,
                   static_cast<uint8_t>(device.type()) |
                       static_cast<uint64_t>(static_cast<uint8_t>(device.index())) << 8);
  }
  if (value.isString()) return put_text(arena, Tag::kString, value.toStringView());
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    const double parts[2] = {number.real(), number.imag()};
    return put_words(arena, make_tag(Tag::kComplex), parts, 2, sizeof(parts));
  }
  if (value.isTuple() && depth < kMaxSequenceDepth) {
    return put_sequence(arena, value.toTupleRef().elements(), /*is_tuple=*/true, depth);
  }
  return put_other(arena, value);
}

// An IValue is 8 bytes of value and a 4-byte number for its kind. torch keeps these numbers private, so
// ShortForms finds each from a value of known kind. One table lookup then tells how to pack a value. Calls of
// `isInt()`, `isDouble()` and so on would be one branch each, which the processor mispredicts because kinds
// of arguments have no pattern.
constexpr size_t kValueKinds = 64;
uint32_t kind_of(const c10::IValue& value) {
  uint32_t kind;
  std::memcpy(&kind, reinterpret_cast<const char*>(&value) + sizeof(uint64_t), sizeof(kind));
  return kind;
}
uint64_t first_word(const c10::IValue& value) {
  uint64_t word;
  std::memcpy(&word, static_cast<const void*>(&value), sizeof(word));
  return word;
}

// Packing of one kind: a tag word whose detail is the low `detail_bits` of the value; with `words` 2, the
// value itself as a second word.
struct ShortForm {
  Tag tag = Tag::kNone;
  uint8_t detail_bits = 0;
  uint8_t words = 0;  // 0: no short form
  bool is_tensor = false;
};

class ShortForms {
 public:
  ShortForms() {
    learn(c10::IValue(), {Tag::kNone, 0, 1}, c10::IValue());
    learn(true, {Tag::kBool, 8, 1}, false);
    learn(-0.0, {Tag::kDouble, 0, 2}, 1.5);
    learn(int64_t{0x123456789abcdef}, {Tag::kInt, 56, 1}, int64_t{-1});
    learn(c10::Device(c10::kCUDA, 3), {Tag::kDevice, 16, 1}, c10::Device(c10::kCPU));
    learn(at::Tensor(), {Tag::kUndefined, 0, 0, true}, at::Tensor());
    if (!as_expected()) forms_ = {};
  }
  const ShortForm& of(const c10::IValue& value) const { return forms_[kind_of(value) % kValueKinds]; }

 private:
  void learn(const c10::IValue& value, const ShortForm& form, const c10::IValue& same_kind) {
    const uint32_t kind = kind_of(value);
    as_expected_ &= kind < kValueKinds && kind == kind_of(same_kind) && forms_[kind].words == 0;
    forms_[kind % kValueKinds] = form;
  }
  // A plain value is the first 8 bytes of an IValue.
  bool as_expected() const {
    return as_expected_ && first_word(int64_t{0x123456789abcdef}) == 0x123456789abcdef &&
           first_word(-0.0) == uint64_t{1} << 63 && (first_word(true) & 0xff) == 1 &&
           (first_word(c10::Device(c10::kCUDA, 3)) & 0xffff) == 0x0301;
  }

  alignas(64) std::array<ShortForm, kValueKinds> forms_{};
  bool as_expected_ = sizeof(c10::IValue) == 2 * sizeof(uint64_t);
};
const ShortForms short_forms;

// Returns the end.
uint64_t* put_short(uint64_t* word, const c10::IValue& value, const ShortForm& form) {
  const uint64_t bits = first_word(value);
  word[0] = make_tag(form.tag, bits & ((uint64_t{1} << form.detail_bits) - 1));
  word[1] = bits;
  const bool is_long = (form.tag == Tag::kInt) & !is_short_int(static_cast<int64_t>(bits));
  if (is_long) [[unlikely]] {
    word[0] = make_tag(Tag::kLongInt);
    return word + 2;
  }
  return word + form.words;
}

constexpr size_t kShortListElements = 16;

// Packs a short list of integers, such as sizes or strides. A list of integers is recorded as such for any
// declared type, so only an empty list needs its type. Returns the end, or nullptr for other values.
uint64_t* put_short_list(uint64_t* word, const c10::IValue& value) {
  if (!value.isList()) return nullptr;
  const Values list = value.toListRef();
  if (list.size() > kShortListElements || (list.empty() && !value.isIntList())) return nullptr;
  *word++ = make_tag(Tag::kIntList, list.size() | static_cast<uint64_t>(list.size()) << 24);
  bool all_integers = true;
  for (const c10::IValue& element : list) {
    all_integers &= short_forms.of(element).tag == Tag::kInt;
    *word++ = first_word(element);
  }
  return all_integers ? word : nullptr;
}

// Maximum words of a usual value.
constexpr size_t kUsualWords = std::max(kOrdinaryTensorWords, 1 + kShortListElements);

// Returns the end of a usual value, or nullptr for others.
uint64_t* put_usual(uint64_t* word, const c10::IValue& value) {
  const ShortForm& form = short_forms.of(value);
  if (form.is_tensor) return put_usual_tensor(word, value.toTensor());
  if (form.words != 0) [[likely]]
    return put_short(word, value, form);
  return put_short_list(word, value);
}

// Packs any other value, possibly continued in another block of the arena. Returns the end, with room for
// `room` words. nullptr: out of memory, or a tensor with an unreadable shape (it throws).
[[gnu::noinline]] uint64_t* put_unusual(Arena& arena, uint64_t* word, const c10::IValue& value,
                                        size_t room) noexcept try {
  arena.advance_to(word);
  return put_value(arena, value) ? arena.reserve(room) : nullptr;
} catch (const std::exception&) {
  return nullptr;
}

// Leaves out and counts arguments for lack of memory or because of an unreadable shape.
[[gnu::cold, gnu::noinline]] uint32_t cut_payload(Arena& arena) {
  arena.cancel();
  return kCutArena;
}

constexpr size_t kMostUsualValues = 256;

using Keywords = std::unordered_map<std::string, c10::IValue>;
const Keywords kNoKeywords;

template <typename List>
[[gnu::noinline]] uint32_t put_arguments(Arena& arena, const List& values, const Keywords& keywords,
                                         bool for_all_windows = false) noexcept try {
  if (!arena.begin()) return kCutArena;
  const uint64_t head = make_head(values.size(), keywords.size(), for_all_windows);
  if (!put_words(arena, head, nullptr, 0, 0)) return cut_payload(arena);
  for (const c10::IValue& value : values) {
    if (!put_value(arena, value)) return cut_payload(arena);
  }
  for (const auto& [name, value] : keywords) {
    if (!put_text(arena, Tag::kString, name) || !put_value(arena, value)) return cut_payload(arena);
  }
  return arena.commit();
} catch (const std::exception&) {
  return cut_payload(arena);
}

using Positional = c10::ArrayRef<const c10::IValue>;

// The same without keyword arguments; fast for usual values.
uint32_t put_positional(Arena& arena, Positional values) noexcept try {
  size_t room = values.size() * kUsualWords;
  if (values.size() > kMostUsualValues) [[unlikely]]
    return put_arguments(arena, values, kNoKeywords);
  if (!arena.begin()) [[unlikely]]
    return kCutArena;
  uint64_t* word = arena.reserve(1 + room);
  if (word == nullptr) [[unlikely]]
    return cut_payload(arena);
  *word++ = make_head(values.size(), 0);
  for (const c10::IValue& value : values) {
    room -= kUsualWords;
    uint64_t* end = put_usual(word, value);
    if (end == nullptr) [[unlikely]] {
      end = put_unusual(arena, word, value, room);
      if (end == nullptr) return cut_payload(arena);
    }
    word = end;
  }
  arena.advance_to(word);
  return arena.commit();
} catch (const std::exception&) {
  return cut_payload(arena);
}

[[gnu::noinline]] uint32_t put_with_keywords(Arena& arena, const at::RecordFunction& fn) noexcept {
  return put_arguments(arena, fn.inputs(), fn.kwinputs());
}

// Metadata of collectives are JSON: a quoted text, a number, or a list, which stays text.
c10::IValue plain_value(const std::string& json) {
  if (json.size() >= 2 && json.front() == '"') return json.substr(1, json.size() - 2);
  int64_t number = 0;
  const auto parsed = std::from_chars(json.data(), json.data() + json.size(), number);
  if (!json.empty() && parsed.ptr == json.data() + json.size()) return number;
  return json;
}

// Packs a collective's process group, message sizes and so on, under torch.profiler's names. Like
// torch.profiler, does so even without arguments of operators.
template <bool kInputs>
[[gnu::noinline]] uint32_t put_collective(ThreadLog& log, const at::RecordFunction& fn) noexcept try {
  Keywords keywords = fn.kwinputs();
  const torch::profiler::impl::SaveNcclMetaConfig config(
      /*truncate=*/false, /*introspectMetadata=*/true, /*introspectInputs=*/false,
      /*introspectOutputs=*/false);
  for (const auto& [name, json] : torch::profiler::impl::saveNcclMeta(fn, config)) {
    keywords.emplace(name, plain_value(json));
  }
  const c10::ArrayRef<const c10::IValue> none;
  return put_arguments(log.arena(), kInputs ? fn.inputs() : none, keywords, /*for_all_windows=*/true);
} catch (const std::exception& error) {
  core->fault(error.what());
  return kNoArena;
}

}  // namespace
}  // namespace opscope
