// A JSON value as a part of the text, not decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opscope::readers {

enum class Sort : uint8_t {
  kMissing,
  kNull,
  kFalse,
  kTrue,
  kInteger,
  kDecimal,   // with a fraction or an exponent
  kConstant,  // NaN, Infinity, -Infinity
  kText,      // without escapes: the text is `raw`
  kEscaped,   // with escapes
  kList,
  kObject,
};

// `raw`: the value's part of the text, without quotes. Valid as long as the text.
struct Value {
  Sort sort = Sort::kMissing;
  std::string_view raw;

  bool is_text() const { return sort == Sort::kText || sort == Sort::kEscaped; }
};

struct Member {
  std::string_view key;  // unescaped
  Value value;
};

// Relevant keys of an object that describes an event. The last of equal keys counts.
struct FoundEvent {
  Value phase;
  Value category;
  Value name;
  Value process;
  Value thread;
  Value time;
  Value duration;
  Value id;
  Value id2;
  Value scope;
  Value arguments;
  std::vector<Member> members;  // of `arguments`, if that is an object

  void clear() {
    phase = category = name = process = thread = time = duration = id = id2 = scope = arguments = Value{};
    members.clear();
  }
  // The last member with that name; missing if there is none.
  Value argument(std::string_view key) const {
    for (size_t i = members.size(); i-- > 0;)
      if (members[i].key == key) return members[i].value;
    return {};
  }
};

// Appends a text with decoded escapes, which must be valid, as UTF-8; unpaired surrogates get three bytes.
void append_unescaped(std::string& out, std::string_view raw);

// Decodes a text value; `scratch` has the result if there are escapes.
inline std::string_view text_of(const Value& value, std::string& scratch) {
  if (value.sort == Sort::kText) return value.raw;
  scratch.clear();
  append_unescaped(scratch, value.raw);
  return scratch;
}

}  // namespace opscope::readers
