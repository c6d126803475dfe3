// A JSON value where it lies in the text, not taken apart.
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
  kDecimal,   // a number with a fraction or an exponent
  kConstant,  // NaN, Infinity, -Infinity
  kText,      // without escapes: the text is `raw`
  kEscaped,   // with some
  kList,
  kObject,
};

// `raw` is what stands in the text; of texts, what is between the quotes. Valid for as long as the text.
struct Value {
  Sort sort = Sort::kMissing;
  std::string_view raw;

  bool is_text() const { return sort == Sort::kText || sort == Sort::kEscaped; }
};

struct Member {
  std::string_view key;  // unescaped
  Value value;
};

// An object that describes an event: what matters of it, by its keys. The last of equal keys counts.
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
  // The last member of that name; missing if there is none.
  Value argument(std::string_view key) const {
    for (size_t i = members.size(); i-- > 0;)
      if (members[i].key == key) return members[i].value;
    return {};
  }
};

// Appends a text without its escapes, as UTF-8; halves of surrogate pairs that stand alone get three bytes.
// The escapes must be valid.
void append_unescaped(std::string& out, std::string_view raw);

// The text of a value that is one; `scratch` holds it if it has escapes.
inline std::string_view text_of(const Value& value, std::string& scratch) {
  if (value.sort == Sort::kText) return value.raw;
  scratch.clear();
  append_unescaped(scratch, value.raw);
  return scratch;
}

}  // namespace opscope::readers
