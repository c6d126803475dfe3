// The Perfetto writer without Python: lengths of messages, spans in pieces, damaged tables.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.h"
#include "writers/perfetto.h"
#include "writers/protobuf.h"

namespace {

using namespace opscope;
using namespace opscope::writers;

template <class T>
ColumnView<T> column(const std::vector<T>& values) {
  return {values.data(), 1, values.size()};
}

uint64_t read_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; !bytes.empty() && shift < 64; shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

// Fields of a message by number: numbers, or the bytes of nested ones.
struct Message {
  std::multimap<uint64_t, uint64_t> numbers;
  std::multimap<uint64_t, std::string_view> nested;

  uint64_t number(uint64_t field) const {
    const auto found = numbers.find(field);
    return found == numbers.end() ? 0 : found->second;
  }
};

Message parse(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const uint64_t tag = read_varint(bytes);
    if ((tag & 7) == 0) {
      message.numbers.emplace(tag >> 3, read_varint(bytes));
    } else if ((tag & 7) == 1) {
      CHECK(bytes.size() >= 8);
      bytes.remove_prefix(8);
    } else {
      const uint64_t size = read_varint(bytes);
      CHECK(size <= bytes.size());
      message.nested.emplace(tag >> 3, bytes.substr(0, size));
      bytes.remove_prefix(size);
    }
  }
  return message;
}

// Three spans on one line: a(10..50) with b(20..20) inside, then a(50..60).
struct Example {
  std::vector<int32_t> order{0, 1, 2}, name{0, 1, 0};
  std::vector<uint8_t> category{0, 0, 0};
  std::vector<int64_t> start{10, 20, 50}, duration{40, 0, 10};
  std::string text = "ab";
  std::vector<int64_t> offsets{0, 1, 2};

  PerfettoTrace trace() const {
    PerfettoTrace trace;
    trace.name_offsets = column(offsets);
    trace.name_bytes = {reinterpret_cast<const uint8_t*>(text.data()), 1, text.size()};
    trace.categories = {"operator"};
    PerfettoSpans spans;
    spans.order = column(order);
    spans.lines = {0, static_cast<int64_t>(order.size())};
    spans.tracks = {7};
    spans.name = column(name);
    spans.category = column(category);
    spans.start_ns = column(start);
    spans.duration_ns = column(duration);
    trace.spans.push_back(std::move(spans));
    return trace;
  }
};

std::string written(PerfettoTrace trace, size_t block) {
  PerfettoWriter writer(std::move(trace));
  std::string file;
  for (;;) {
    TextBuffer out(1);
    if (!writer.write(out, block)) return file;
    file.append(out.view());
  }
}

// Times and types of all track events; times restored from their differences.
std::vector<std::pair<int64_t, uint64_t>> events_of(std::string_view file) {
  std::vector<std::pair<int64_t, uint64_t>> events;
  int64_t time = 0;
  for (const auto& [field, bytes] : parse(file).nested) {
    CHECK_SAME(field, 1u);
    const Message packet = parse(bytes);
    const auto event = packet.nested.find(11);
    if (event == packet.nested.end()) continue;
    time += static_cast<int64_t>(packet.number(8));
    events.emplace_back(time, parse(event->second).number(9));
  }
  return events;
}

using Events = std::vector<std::pair<int64_t, uint64_t>>;
const Events kExampleEvents{{10, 1}, {20, 1}, {20, 2}, {50, 2}, {50, 1}, {60, 2}};

TEST(messages_of_any_length_have_their_length_in_front) {
  for (const size_t size : {0u, 1u, 127u, 128u, 16383u, 16384u, 100000u}) {
    TextBuffer out(1);
    Nested outer(out, 1);
    Nested inner(out, 2);
    out.put(std::string(size, 'x'));
    inner.close();
    put_field(out, 3, 5);
    outer.close();
    const Message message = parse(parse(out.view()).nested.find(1)->second);
    CHECK_SAME(message.nested.find(2)->second.size(), size);
    CHECK_SAME(message.number(3), 5u);
  }
}

TEST(spans_begin_and_end_in_order_of_time) {
  CHECK(events_of(written(Example().trace(), 1 << 20)) == kExampleEvents);
}

TEST(the_size_of_blocks_changes_nothing) {
  const std::string whole = written(Example().trace(), 1 << 20);
  for (const size_t block : {1u, 7u, 50u, 200u}) CHECK(written(Example().trace(), block) == whole);
}

TEST(long_names_and_values_far_from_zero) {
  Example example;
  example.text = std::string(300000, 'n') + "b";
  example.offsets = {0, 300000, 300001};
  example.start = {INT64_MAX / 2, INT64_MAX / 2 + 1, INT64_MAX / 2 + 2};
  example.duration = {INT64_MAX / 4, 0, 1};
  CHECK_SAME(events_of(written(example.trace(), 64)).size(), 6u);
}

TEST(damaged_tables_do_not_crash_the_writer) {
  Example example;
  example.name = {-1, 99, 1000};
  example.duration = {-5, INT64_MIN / 2, 3};
  example.start = {50, 10, 20};  // not in order
  CHECK_SAME(events_of(written(example.trace(), 1 << 20)).size(), 6u);
}

TEST(inputs_are_told_apart_by_every_part) {
  std::vector<int64_t> rows{0, 1, 2, 3, 3}, none{0, 0, 0, 0, 0}, scalar_rows{0, 0, 0, 0, 1};
  std::vector<int16_t> argument{0, 0, 1}, scalar_argument{0};
  std::vector<int32_t> element{-1, -1, -1}, value{0};
  std::vector<uint8_t> role{0, 0, 0}, scalar_role{0}, type{2};
  std::vector<int8_t> dtype{6, 4, 6};
  std::vector<int64_t> offsets{0, 2, 4, 6}, sizes{2, 3, 2, 3, 2, 3}, names{0, 2};
  const std::string text = "42";
  const ListView lists{column(offsets), column(sizes)};
  const PerfettoInputs inputs(
      {{column(rows)}, column(argument), column(element), column(role), column(dtype), lists, lists},
      {{column(scalar_rows)}, column(scalar_argument), column(scalar_role), column(type), column(value)},
      {"u8", "i8", "i16", "i32", "i64", "f16", "f32"}, column(names),
      {reinterpret_cast<const uint8_t*>(text.data()), 1, text.size()});
  CHECK_SAME(inputs.text(0), std::string("f32[2,3]"));
  CHECK_SAME(inputs.text(1), std::string("i64[2,3]"));
  CHECK_SAME(inputs.text(3), std::string("42"));
  CHECK(inputs.hash(0) != inputs.hash(1));  // another dtype
  CHECK(inputs.hash(0) != inputs.hash(2));  // another position
  CHECK(!inputs.has(4));
}

}  // namespace

int main() { return opscope::tests::run_all(); }
