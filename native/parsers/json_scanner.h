// Scans JSON in a text that may be incomplete: returns values as parts of the text, and events at any depth.
//
// Texts may contain control characters; NaN and Infinity are numbers.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/json_value.h"

namespace opscope::readers {

// Thrown at the end of an incomplete text: scan again with more text.
struct NeedMore {};

// Thrown for invalid JSON. `at`: position in the text; its end if the text may have been cut.
struct NotJson {
  const char* what;
  const char* at;
};

class Scanner {
 public:
  // Scans [begin, end), followed by kPadding zero bytes. Drops earlier results.
  void start(const char* begin, const char* end, bool is_last) {
    at_ = begin;
    end_ = end;
    is_last_ = is_last;
  }
  const char* at() const { return at_; }

  // Drops events and texts of earlier values.
  void forget() {
    events_ = 0;
    unescaped_.clear();
  }
  // The value that begins here; adds its events to the results, inner ones first. An event counts as null.
  Value value(size_t depth);
  size_t events() const { return events_; }
  const FoundEvent& event(size_t i) const { return found_[i]; }

  // The key that begins here, and the colon after it.
  std::string_view key();
  void skip_space();
  // The character here, 0 at the end of the file.
  char peek() const {
    if (at_ == end_ && !is_last_) throw NeedMore{};
    return *at_;
  }
  bool is_at_end() const { return at_ == end_; }
  void step() { ++at_; }
  [[noreturn]] void fail(const char* what) const { throw NotJson{what, at_}; }

  static constexpr size_t kPadding = 16;
  static constexpr size_t kDeepest = 256;  // Python reads the keys beside the events by recursion

 private:
  struct Level {
    FoundEvent event;
    std::vector<Member> members;
  };

  Value object(size_t depth);
  Value list(size_t depth);
  Value text();
  Value number();
  Value constant(const char* spelled, Sort sort);
  void escape();
  void check_digits(const char* u) const;
  void require(size_t bytes) const {
    if (!is_last_ && static_cast<size_t>(end_ - at_) < bytes) throw NeedMore{};
  }
  void set(Level& level, std::string_view key, const Value& value, size_t depth);

  const char* at_ = nullptr;
  const char* end_ = nullptr;
  bool is_last_ = false;
  std::deque<Level> levels_;  // objects around the current one, and the last one inside it
  std::vector<FoundEvent> found_;
  size_t events_ = 0;                  // of `found_`, whose memory is reused
  std::deque<std::string> unescaped_;  // keys
};

// Iterates over the elements of a scanned list.
class Elements {
 public:
  explicit Elements(const Value& list)
      : rest_(list.sort == Sort::kList ? list.raw.substr(1, list.raw.size() - 2) : std::string_view{}) {}
  // False at the end.
  bool next(Value& value);

 private:
  std::string_view rest_;
};

}  // namespace opscope::readers
