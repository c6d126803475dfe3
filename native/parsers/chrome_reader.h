// Reads a Chrome JSON file piece by piece; keeps at most a piece and a value of its text in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parsers/event_collector.h"
#include "parsers/json_scanner.h"

namespace opscope::readers {

// Position in a text: lines, and characters of the last one, counted as the text arrives.
class TextPlace {
 public:
  // Adds the next bytes of the text, which is UTF-8.
  void add(std::string_view bytes) {
    const size_t line = bytes.rfind('\n');
    if (line != std::string_view::npos) {
      lines_ += std::count(bytes.begin(), bytes.end(), '\n');
      since_line_ = 0;
      bytes.remove_prefix(line + 1);
    }
    for (const char c : bytes) since_line_ += (static_cast<uint8_t>(c) & 0xc0) != 0x80;
  }

  int64_t line() const { return lines_ + 1; }
  int64_t column() const { return since_line_ + 1; }

 private:
  int64_t lines_ = 0;
  int64_t since_line_ = 0;
};

// Repairs names with unescaped quotes while a file is read, as Kineto wrote them ("name": "f.py(0): "x""), if
// the name has a line of its own.
class NameMender {
 public:
  // Appends to `out` the part of the repaired text that is known after this piece.
  void add(std::string_view piece, std::string& out);
  void finish(std::string& out);

  int64_t names() const { return names_; }

 private:
  enum class At { kLineStart, kKey, kColon, kQuote, kName, kRest };

  void step(char c, std::string& out);
  void begin_line(char c);
  void mend_name(std::string& out);

  At at_ = At::kLineStart;
  size_t matched_ = 0;        // characters of the key
  bool is_new_line_ = false;  // since the key
  std::string name_;          // rest of its line
  int64_t names_ = 0;
};

// Reason and position of invalid JSON.
struct Problem {
  const char* what;
  int64_t line;
  int64_t column;  // in characters
  bool is_at_end;  // the text was cut
};

class ChromeReader {
 public:
  // `mends`: repairs known faults of writers of such files.
  ChromeReader(const Vocabulary& vocabulary, MeaningOf meaning, bool mends)
      : collector_(vocabulary, std::move(meaning)), mends_(mends) {}
  ChromeReader(const ChromeReader&) = delete;
  ChromeReader& operator=(const ChromeReader&) = delete;

  // Reads the next bytes of the file, which must be valid UTF-8. False: there is a problem; reading has
  // ended.
  bool add(std::string_view piece);
  // Ends the file.
  bool finish();

  const std::optional<Problem>& problem() const { return problem_; }

  EventCollector& collector() { return collector_; }
  bool has_events() const { return has_events_; }        // or an empty list
  const std::string& others() const { return others_; }  // JSON of the file's other keys
  bool is_cut() const { return is_cut_; }  // the text ends inside a value; complete events were read
  int64_t mended_names() const { return mender_.names(); }

 private:
  enum class At {
    kStart,
    kFirstElement,
    kElement,
    kAfterElement,
    kFirstKey,
    kKey,
    kAfterValue,
    kEnd,
  };

  bool add_text(std::string_view text);
  bool read(bool is_last);
  bool read_to_the_end();
  bool read_next();
  void read_key();
  void read_start();
  void begin_another();
  void close_object();
  void take_events();
  void fail(const NotJson& error, bool is_last);

  EventCollector collector_;
  const bool mends_;
  NameMender mender_;
  std::string mended_;

  Scanner scanner_;
  std::vector<char> text_;  // unread text, and padding
  size_t length_ = 0;       // without padding
  size_t read_ = 0;         // of it
  size_t wanted_ = 0;       // minimum text before reading continues
  At at_ = At::kStart;
  bool is_cut_ = false;
  bool is_in_object_ = false;  // the list of events is a value of the file's object

  TextPlace place_;  // of the first byte of `text_`
  std::optional<Problem> problem_;

  bool has_list_ = false;
  bool has_events_ = false;
  bool has_phase_ = false;
  bool has_time_or_process_ = false;
  std::string others_;
};

}  // namespace opscope::readers
