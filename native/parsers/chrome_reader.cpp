#include "parsers/chrome_reader.h"

#include <cstring>

namespace opscope::readers {

bool ChromeReader::add(std::string_view piece) {
  if (!mends_) return add_text(piece);
  mended_.clear();
  mender_.add(piece, mended_);
  return add_text(mended_);
}

bool ChromeReader::finish() {
  if (mends_) {
    mended_.clear();
    mender_.finish(mended_);
    add_text(mended_);
  }
  if (!problem_ && read_to_the_end()) has_events_ = has_list_ || collector_.seen > 0;
  return !problem_;
}

bool ChromeReader::add_text(std::string_view text) {
  if (problem_) return false;
  if (text.empty()) return true;
  place_.add({text_.data(), read_});
  length_ -= read_;
  if (read_ != 0 && length_ != 0) std::memmove(text_.data(), text_.data() + read_, length_);
  read_ = 0;
  if (text_.size() < length_ + text.size() + Scanner::kPadding)
    text_.resize(length_ + text.size() + Scanner::kPadding);
  std::memcpy(text_.data() + length_, text.data(), text.size());
  length_ += text.size();
  std::memset(text_.data() + length_, 0, Scanner::kPadding);
  return length_ < wanted_ || read(false);
}

// If the text is an incomplete JSON value, it was cut there: its writer died, or never ends its list, which
// Chrome's format allows. Complete events count.
bool ChromeReader::read_to_the_end() {
  if (!read(false)) return false;
  const bool may_go_on = at_ != At::kEnd;
  if (read(true)) return true;
  if (!may_go_on || collector_.seen == 0) return false;
  problem_.reset();
  is_cut_ = true;
  if (is_in_object_ && !others_.empty()) others_ += '}';
  return true;
}

bool ChromeReader::read(bool is_last) {
  if (text_.empty()) text_.resize(Scanner::kPadding);
  const char* const begin = text_.data();
  try {
    do {
      scanner_.start(begin + read_, begin + length_, is_last);
    } while (read_next());
    wanted_ = 0;
  } catch (const NeedMore&) {
    wanted_ = (length_ - read_) * 2;  // avoids rescanning a long value with every piece
  } catch (const NotJson& error) {
    fail(error, is_last);
  }
  return !problem_;
}

// Reads one part of the text if its end is known. False: nothing is left.
bool ChromeReader::read_next() {
  scanner_.skip_space();
  At next = at_;
  switch (at_) {
    case At::kStart:
      read_start();
      next = at_;
      break;
    case At::kFirstElement:
    case At::kElement:
      if ((at_ == At::kFirstElement || collector_.seen > 0) && scanner_.peek() == ']') {
        scanner_.step();
        next = is_in_object_ ? At::kAfterValue : At::kEnd;
        break;
      }
      scanner_.forget();
      scanner_.value(is_in_object_ ? 2 : 1);
      take_events();
      next = At::kAfterElement;
      break;
    case At::kAfterElement:
      if (scanner_.peek() == ']') {
        next = is_in_object_ ? At::kAfterValue : At::kEnd;
      } else if (scanner_.peek() == ',') {
        next = At::kElement;
      } else {
        scanner_.fail("Expecting ',' delimiter");
      }
      scanner_.step();
      break;
    case At::kFirstKey:
    case At::kKey:
      if ((at_ == At::kFirstKey || collector_.seen > 0) && scanner_.peek() == '}') {
        scanner_.step();
        close_object();
        next = At::kEnd;
        break;
      }
      read_key();
      next = at_;
      break;
    case At::kAfterValue:
      if (scanner_.peek() == '}') {
        scanner_.step();
        close_object();
        next = At::kEnd;
      } else if (scanner_.peek() == ',') {
        scanner_.step();
        next = At::kKey;
      } else {
        scanner_.fail("Expecting ',' delimiter");
      }
      break;
    case At::kEnd:
      if (scanner_.is_at_end()) {
        read_ = length_;
        return false;
      }
      begin_another();
      next = At::kStart;
      break;
  }
  at_ = next;
  read_ = static_cast<size_t>(scanner_.at() - text_.data());
  return true;
}

// Lists and single events may follow each other, as in a file with an event per line; traces may not.
void ChromeReader::begin_another() {
  if (has_list_ || collector_.seen == 0 || (is_in_object_ && others_ != "{}")) scanner_.fail("Extra data");
  is_in_object_ = has_phase_ = has_time_or_process_ = false;
  others_.clear();
}

void ChromeReader::read_start() {
  switch (scanner_.peek()) {
    case '[':
      scanner_.step();
      at_ = At::kFirstElement;
      break;
    case '{':
      scanner_.step();
      is_in_object_ = true;
      at_ = At::kFirstKey;
      break;
    default:
      scanner_.value(0);
      at_ = At::kEnd;
  }
}

void ChromeReader::read_key() {
  scanner_.forget();
  const char* const begin = scanner_.at();
  const std::string_view key = scanner_.key();
  const bool is_list = key == "traceEvents";
  if (is_list && scanner_.peek() == '[') {
    scanner_.step();
    has_list_ = true;
    at_ = At::kFirstElement;
    return;
  }
  scanner_.value(1);
  take_events();
  at_ = At::kAfterValue;
  if (is_list) {
    has_list_ = false;  // the last of equal keys counts
    return;
  }
  has_phase_ |= key == "ph";
  has_time_or_process_ |= key == "ts" || key == "pid";
  others_ += others_.empty() ? '{' : ',';
  others_.append(begin, scanner_.at());
}

// The file may also be a single event.
void ChromeReader::close_object() {
  if (others_.empty()) others_ = "{";
  others_ += '}';
  if (!has_phase_ || !has_time_or_process_) return;
  std::string text = others_;
  const size_t length = text.size();
  text.append(Scanner::kPadding, '\0');
  Scanner scanner;
  scanner.start(text.data(), text.data() + length, true);
  scanner.value(0);
  collector_.take(scanner.event(scanner.events() - 1));  // events inside it were taken before
  others_ = "{}";
}

void ChromeReader::take_events() {
  for (size_t i = 0; i < scanner_.events(); ++i) collector_.take(scanner_.event(i));
}

void ChromeReader::fail(const NotJson& error, bool is_last) {
  place_.add({text_.data(), static_cast<size_t>(error.at - text_.data())});
  problem_ = {error.what, place_.line(), place_.column(), is_last && error.at == text_.data() + length_};
}

}  // namespace opscope::readers
