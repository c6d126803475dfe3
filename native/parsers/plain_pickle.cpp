#include "parsers/plain_pickle.h"

#include <algorithm>
#include <utility>

namespace opscope::readers {

namespace {

constexpr size_t kMostOnStack = 1 << 20;  // pickles add a thousand values to a container at a time
constexpr size_t kAlways = 4096;          // allowed count in any small file
constexpr size_t kMostKeys = 1 << 16;

}  // namespace

PlainPickle::PlainPickle(std::span<const uint8_t> bytes)
    : bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {
  shapes_.emplace_back();
  shape_of_.emplace(Keys{}, 0);
  read();
}

void PlainPickle::fail(const std::string& what) const {
  throw PickleProblem(what + " at byte " + std::to_string(at_));
}

void PlainPickle::read() {
  for (;;) {
    const auto code = static_cast<uint8_t>(take(1)[0]);
    if (code == '.') break;
    step(code);
  }
  root_ = pop();
  memo_ = {};
  stack_ = {};
}

void PlainPickle::step(uint8_t code) {
  switch (code) {
    case 0x80: {  // PROTO
      const uint64_t version = little(1);
      if (version < 2 || version > 5) fail("there is no protocol " + std::to_string(version));
      return;
    }
    case 0x95:
      take(8);
      return;  // FRAME
    case '(':
      marks_.push_back(stack_.size());  // MARK
      if (marks_.size() > kMostOnStack) fail("too many marks");
      return;
    case '0':
      pop();
      return;  // POP
    case '1':
      pop_to_mark();
      return;  // POP_MARK
    case 'N':
      push(Kind::kNone);
      return;  // NONE
    case 0x88:
      push(Kind::kTruth, 1);
      return;  // NEWTRUE
    case 0x89:
      push(Kind::kTruth, 0);
      return;  // NEWFALSE
    case 'J':
      push(Kind::kInteger, static_cast<int32_t>(little(4)));
      return;  // BININT
    case 'K':
      push(Kind::kInteger, static_cast<int64_t>(little(1)));
      return;  // BININT1
    case 'M':
      push(Kind::kInteger, static_cast<int64_t>(little(2)));
      return;  // BININT2
    case 0x8a:
      push_long(little(1));
      return;  // LONG1
    case 0x8b:
      push_long(little(4));
      return;    // LONG4
    case 'G': {  // BINFLOAT, big-endian
      uint64_t bits = 0;
      for (const char byte : take(8)) bits = bits << 8 | static_cast<uint8_t>(byte);
      push(Kind::kFloat, static_cast<int64_t>(bits));
      return;
    }
    case 0x8c:
      push_text(little(1));
      return;  // SHORT_BINUNICODE
    case 'X':
      push_text(little(4));
      return;  // BINUNICODE
    case 0x8d:
      push_text(little(8));
      return;  // BINUNICODE8
    case 'C':
      take(little(1));
      push(Kind::kOther);
      return;  // SHORT_BINBYTES
    case 'B':
      take(little(4));
      push(Kind::kOther);
      return;  // BINBYTES
    case 0x8e:
    case 0x96:  // BINBYTES8, BYTEARRAY8
      take(little(8));
      push(Kind::kOther);
      return;
    case ']':
    case ')':
      push_list({});
      return;  // EMPTY_LIST, EMPTY_TUPLE
    case 'l':
    case 't':
      push_list(pop_to_mark());
      return;  // LIST, TUPLE
    case 0x85:
    case 0x86:
    case 0x87: {  // TUPLE1 to TUPLE3
      std::vector<PickledValue> values(code - 0x84);
      for (size_t row = values.size(); row-- > 0;) values[row] = pop();
      push_list(std::move(values));
      return;
    }
    case 'a': {  // APPEND
      const PickledValue value = pop();
      append({&value, 1});
      return;
    }
    case 'e':
      append(pop_to_mark());
      return;  // APPENDS
    case '}':
    case 'd': {  // EMPTY_DICT, DICT
      const std::vector<PickledValue> pairs = code == 'd' ? pop_to_mark() : std::vector<PickledValue>{};
      push(Kind::kDictionary, static_cast<int64_t>(dictionaries_.size()));
      dictionaries_.push({});
      check_sizes();
      set(pairs);
      return;
    }
    case 's': {  // SETITEM
      std::array<PickledValue, 2> pair;
      pair[1] = pop();
      pair[0] = pop();
      set(pair);
      return;
    }
    case 'u':
      set(pop_to_mark());
      return;  // SETITEMS
    case 0x94:
      memoize(memo_.size());
      return;  // MEMOIZE
    case 'q':
      memoize(little(1));
      return;  // BINPUT
    case 'r':
      memoize(little(4));
      return;  // LONG_BINPUT
    case 'h':
      recall(little(1));
      return;  // BINGET
    case 'j':
      recall(little(4));
      return;  // LONG_BINGET
    default:
      --at_;
      fail("it holds more than plain data (code " + std::to_string(code) + ")");
  }
}

std::string_view PlainPickle::take(uint64_t size) {
  if (size > bytes_.size() - at_) fail("it ends too early");
  const std::string_view taken = bytes_.substr(at_, size);
  at_ += size;
  return taken;
}

uint64_t PlainPickle::little(size_t size) {
  uint64_t value = 0;
  const std::string_view taken = take(size);
  for (size_t row = size; row-- > 0;) value = value << 8 | static_cast<uint8_t>(taken[row]);
  return value;
}

void PlainPickle::push(Kind kind, int64_t number) {
  if (stack_.size() >= kMostOnStack) fail("too many values without a container");
  stack_.push_back({kind, number});
}

// A 64-bit address needs a ninth byte of 0, because longs are signed.
void PlainPickle::push_long(uint64_t size) {
  const std::string_view digits = take(size);
  if (size > 9 || (size == 9 && digits[8] != 0)) return push(Kind::kOther);
  uint64_t value = size > 0 && size < 9 && (digits[size - 1] & 0x80) != 0 ? ~uint64_t{0} : 0;
  for (size_t row = std::min<size_t>(size, 8); row-- > 0;)
    value = value << 8 | static_cast<uint8_t>(digits[row]);
  push(Kind::kInteger, static_cast<int64_t>(value));
}

void PlainPickle::push_text(uint64_t size) {
  push(Kind::kText, static_cast<int64_t>(texts_.size()));
  texts_.push_back(take(size));
  check_sizes();
}

void PlainPickle::push_list(std::vector<PickledValue> values) {
  push(Kind::kList, static_cast<int64_t>(lists_.size()));
  listed_ += values.size();
  lists_.push_back(std::move(values));
  check_sizes();
}

// Limits memory: files of torch have fewer containers and values for their size.
void PlainPickle::check_sizes() const {
  const size_t size = bytes_.size();
  if (lists_.size() > size / 4 + kAlways || listed_ > size / 2 + kAlways ||
      memo_.size() > size / 3 + kAlways || texts_.size() > size / 3 + kAlways ||
      dictionaries_.size() > size / 2 + kAlways || numbers_.size() > size / 2 + kAlways) {
    fail("it holds far more containers than data");
  }
}

PickledValue PlainPickle::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("a value is missing");
  const PickledValue value = stack_.back();
  stack_.pop_back();
  return value;
}

std::vector<PickledValue> PlainPickle::pop_to_mark() {
  if (marks_.empty()) fail("a mark is missing");
  const auto begin = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
  std::vector<PickledValue> values(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return values;
}

PickledValue& PlainPickle::top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("a value is missing");
  return stack_.back();
}

// Memo numbers are consecutive.
void PlainPickle::memoize(uint64_t row) {
  const PickledValue value = top();
  if (row > memo_.size()) fail("its memo is not numbered in order");
  if (row == memo_.size()) memo_.push(value);
  memo_[row] = value;
  check_sizes();
}

void PlainPickle::recall(uint64_t row) {
  if (row >= memo_.size()) fail("it refers to a memo entry that does not exist");
  push(memo_[row].kind, memo_[row].number);
}

void PlainPickle::append(std::span<const PickledValue> values) {
  const PickledValue container = top();
  if (container.kind != Kind::kList) fail("a value is appended to something that is not a list");
  std::vector<PickledValue>& list = lists_[static_cast<size_t>(container.number)];
  list.insert(list.end(), values.begin(), values.end());
  listed_ += values.size();
  check_sizes();
}

void PlainPickle::set(std::span<const PickledValue> pairs) {
  const PickledValue container = top();
  if (container.kind != Kind::kDictionary || pairs.size() % 2 != 0) fail("keys without a dictionary");
  Dictionary& target = dictionaries_[static_cast<size_t>(container.number)];
  const Dictionary before = target;
  wanted_ = shapes_[before.shape];
  if (wanted_.size() + pairs.size() / 2 > kMostKeys) fail("too many keys in one dictionary");
  const auto first = static_cast<uint64_t>(numbers_.size());
  for (size_t row = 0; row < wanted_.size(); ++row) {
    const PickledValue value = cell(before.first + row);
    kinds_.push(value.kind);
    numbers_.push(value.number);
  }
  for (size_t row = 0; row + 1 < pairs.size(); row += 2) {
    wanted_.push_back(pairs[row].kind == Kind::kText ? key_of(pairs[row].number) : kNoKey);
    kinds_.push(pairs[row + 1].kind);
    numbers_.push(pairs[row + 1].number);
  }
  check_sizes();
  const auto [found, is_new] = shape_of_.try_emplace(wanted_, static_cast<uint32_t>(shapes_.size()));
  if (is_new) shapes_.push_back(wanted_);
  if (shapes_.size() > kMostKeys) fail("too many kinds of dictionaries");
  target = {found->second, first};
}

uint32_t PlainPickle::key_of(int64_t text) {
  const auto known = key_of_text_.find(text);
  if (known != key_of_text_.end()) return known->second;
  const auto [found, is_new] =
      keys_.try_emplace(texts_[static_cast<size_t>(text)], static_cast<uint32_t>(keys_.size()));
  if (key_of_text_.size() < kMostKeys) key_of_text_.emplace(text, found->second);
  return found->second;
}

uint32_t PlainPickle::known_key(std::string_view text) const {
  const auto found = keys_.find(text);
  return found == keys_.end() ? kNoKey - 1 : found->second;
}

// By shape: position of the key's last value, -1 for none.
std::vector<int32_t> PlainPickle::places_of(uint32_t key) const {
  std::vector<int32_t> places(shapes_.size(), -1);
  for (size_t shape = 0; shape < places.size(); ++shape) {
    for (size_t row = 0; row < shapes_[shape].size(); ++row) {
      if (shapes_[shape][row] == key) places[shape] = static_cast<int32_t>(row);
    }
  }
  return places;
}

PickledValue PlainPickle::get(PickledValue given, std::string_view key) const {
  if (given.kind != Kind::kDictionary) return {};
  const Dictionary& found = dictionaries_[static_cast<size_t>(given.number)];
  const Keys& keys = shapes_[found.shape];
  const uint32_t wanted = known_key(key);
  for (size_t row = keys.size(); row-- > 0;) {
    if (keys[row] == wanted) return cell(found.first + row);
  }
  return {};
}

std::span<const PickledValue> PlainPickle::items(PickledValue list) const {
  if (list.kind != Kind::kList) return {};
  return lists_[static_cast<size_t>(list.number)];
}

std::vector<int64_t> PlainPickle::column(PickledValue list, std::string_view key, Kind kind,
                                         int64_t otherwise) const {
  const std::span<const PickledValue> rows = items(list);
  const std::vector<int32_t> places = places_of(known_key(key));
  std::vector<int64_t> found(rows.size(), otherwise);
  for (size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].kind != Kind::kDictionary) continue;
    const Dictionary& one = dictionaries_[static_cast<size_t>(rows[row].number)];
    const int32_t place = places[one.shape];
    if (place < 0) continue;
    const PickledValue value = cell(one.first + static_cast<uint64_t>(place));
    if (value.kind == kind) found[row] = value.number;
  }
  return found;
}

}  // namespace opscope::readers
