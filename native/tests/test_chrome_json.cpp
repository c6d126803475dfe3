// Tests of the Chrome writer without Python: one program, returns how many checks failed.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "writers/chrome_json.h"
#include "writers/json_escape.h"
#include "writers/lanes.h"
#include "writers/text_buffer.h"

namespace {

using namespace opscope;
using namespace opscope::writers;

int failures = 0;

void check(bool passed, const char* what, int line) {
  if (passed) return;
  std::printf("line %d: not true: %s\n", line, what);
  ++failures;
}
#define CHECK(condition) check((condition), #condition, __LINE__)

void check_same(std::string_view got, std::string_view expected, int line) {
  if (got == expected) return;
  std::printf("line %d: got      %.*s\n         expected %.*s\n", line, static_cast<int>(got.size()),
              got.data(), static_cast<int>(expected.size()), expected.data());
  ++failures;
}
#define CHECK_SAME(got, expected) check_same((got), (expected), __LINE__)

template <class T>
ColumnView<T> column(const std::vector<T>& values) {
  return {values.data(), 1, values.size()};
}

// One value for every row, as a column nobody filled in.
template <class T>
ColumnView<T> constant(const T& value, size_t rows) {
  return {&value, 0, rows};
}

std::string escaped(std::string_view text) {
  TextBuffer out(1);
  append_escaped(out, text);
  return std::string(out.view());
}

void test_numbers() {
  TextBuffer out(0);
  out.microseconds(0);
  out.put(' ');
  out.microseconds(4'371'430'215'260'761);
  out.put(' ');
  out.microseconds(INT64_MAX);
  out.put(' ');
  out.microseconds(-5);
  out.put(' ');
  out.number(INT64_MIN);
  out.number(UINT64_MAX);
  out.put(std::string_view());
  CHECK_SAME(out.view(),
             "0.000 4371430215260.761 9223372036854775.807 0.000 "
             "-922337203685477580818446744073709551615");
}

void test_escaping() {
  CHECK_SAME(escaped("aten::mm"), "aten::mm");
  CHECK_SAME(escaped("a\"b\\c\n\r\t\x01\x1f"), "a\\\"b\\\\c\\n\\r\\t\\u0001\\u001f");
  CHECK_SAME(escaped("</script>"), "<\\/script>");
  CHECK_SAME(escaped("/a</"), "/a<\\/");
  CHECK_SAME(escaped("\xC3\xA9\xF0\x9F\x94\xA5"), "\xC3\xA9\xF0\x9F\x94\xA5");
  CHECK_SAME(escaped("\xFF"), "\xEF\xBF\xBD");
  CHECK_SAME(escaped("\xE2\x82"), "\xEF\xBF\xBD");                              // cut short
  CHECK_SAME(escaped("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  CHECK_SAME(escaped("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // surrogate
  CHECK(escaped(std::string(2 << 20, '"')).size() == 4 << 20);
}

void test_names_with_damaged_offsets() {
  const std::vector<int64_t> offsets = {0, 1, 100, -3, 2};
  const std::vector<uint8_t> bytes = {'a', '"', 'c'};
  const EscapedNames names(column(offsets), column(bytes));
  CHECK_SAME(names[0], "a");
  CHECK_SAME(names[1], "");
  CHECK_SAME(names[2], "");
  CHECK_SAME(names[3], "");
  CHECK_SAME(names[4], "");
  CHECK_SAME(names[-1], "");
}

// Start and end of each span, all on one track.
std::vector<int32_t> lanes_of(const std::vector<std::pair<int64_t, int64_t>>& spans,
                              std::vector<uint8_t> yields = {}) {
  std::vector<int32_t> track(spans.size()), order;
  std::vector<int64_t> start, duration;
  yields.resize(spans.size());
  for (const auto& [from, to] : spans) {
    order.push_back(static_cast<int32_t>(order.size()));
    start.push_back(from);
    duration.push_back(to - from);
  }
  return assign_lanes({column(track), column(start), column(duration), column(yields), column(order)});
}

void test_lanes() {
  CHECK(lanes_of({}).empty());
  CHECK(lanes_of({{0, 10}, {1, 4}, {4, 10}, {10, 10}, {10, 12}}).empty());
  CHECK((lanes_of({{0, 10}, {5, 15}}) == std::vector<int32_t>{0, 1}));
  CHECK((lanes_of({{0, 10}, {5, 15}, {6, 14}}) == std::vector<int32_t>{0, 1, 1}));
  CHECK((lanes_of({{0, 10}, {5, 15}}, {1, 0}) == std::vector<int32_t>{1, 0}));
  // A span that has to stay keeps even those that would yield.
  CHECK((lanes_of({{0, 10}, {1, 9}, {5, 15}}, {0, 1, 0}) == std::vector<int32_t>{0, 0, 1}));
  CHECK((lanes_of({{0, 20}, {1, 9}, {2, 8}, {5, 15}}, {0, 2, 2, 0}) == std::vector<int32_t>{0, 1, 1, 0}));
}

void test_many_open_spans() {
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (int64_t i = 0; i < 20'000; ++i) spans.emplace_back(i, 100'000 + i);
  const auto lanes = lanes_of(spans);
  CHECK(lanes.back() == 19'999);
}

// A trace of one operator, called with a tensor, a tensor list, a scalar and something unknown.
struct Fixture {
  std::vector<int64_t> name_offsets = {0, 2, 5, 6};
  std::string text = "mmabc2";
  std::vector<uint8_t> bytes{text.begin(), text.end()};
  std::vector<int32_t> order = {0}, track = {0}, name = {0}, parent = {-1};
  std::vector<uint8_t> kind = {0};
  std::vector<int64_t> start = {1'001'500}, duration = {2'250}, sequence = {7};
  int32_t none = -1, zero = 0;
  int64_t no_id = -1;
  bool unfinished = true;

  std::vector<int64_t> tensor_rows = {0, 3}, scalar_rows = {0, 1};
  std::vector<int16_t> tensor_argument = {0, 1, 1}, scalar_argument = {3};
  std::vector<int32_t> element = {-1, 0, 1}, value = {2};
  std::vector<uint8_t> tensor_role = {0, 0, 0}, scalar_role = {0}, type = {2};
  std::vector<int8_t> dtype = {1, 0, 0};
  std::vector<int64_t> size_offsets = {0, 2, 3, 3}, sizes = {2, 3, 4};
  std::vector<int64_t> stride_offsets = {0, 2, 3, 9}, strides = {3, 1, 1};  // the last is damaged

  std::vector<int64_t> extra_rows = {0, 1}, flow_rows = {0, 2}, flow_id = {1, 9};
  std::vector<int32_t> fragment = {0};
  std::vector<uint8_t> flow_end = {0, 2};

  ChromeTrace trace() {
    ChromeTrace t;
    t.name_offsets = column(name_offsets);
    t.name_bytes = column(bytes);
    t.events = {column(order),    column(track),     column(name),       constant(none, 1),
                column(parent),   column(kind),      column(start),      column(duration),
                column(sequence), constant(zero, 1), constant(no_id, 1), constant(unfinished, 1)};
    t.tensors = {{column(tensor_rows)},
                 column(tensor_argument),
                 column(element),
                 column(tensor_role),
                 column(dtype),
                 {column(size_offsets), column(sizes)},
                 {column(stride_offsets), column(strides)}};
    t.scalars = {
        {column(scalar_rows)}, column(scalar_argument), column(scalar_role), column(type), column(value)};
    t.extras = {{column(extra_rows)}, column(fragment)};
    t.flows = {{column(flow_rows)}, column(flow_id), column(flow_end)};
    t.base_ns = 1'000'000;
    t.tracks = {"\"pid\":1,\"tid\":2"};
    t.fragments = {"\"stream\":0"};
    t.dtype_names = {"float", "long int"};
    t.header = "[\n";
    t.footer = "{}]\n";
    return t;
  }
};

constexpr std::string_view kExpected =
    "[\n"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"mm\",\"pid\":1,\"tid\":2,\"ts\":1.500,\"dur\":2.250,"
    "\"args\":{\"External id\":1,\"Sequence number\":7,\"Fwd thread id\":0,\"Record function id\":1,"
    "\"Concrete Inputs\":[\"\",\"\",\"\",\"2\"],"
    "\"Input type\":[\"long int\",\"TensorList\",\"\",\"Scalar\"],"
    "\"Input Strides\":[[3,1],[[1],[]],[],[]],\"Input Dims\":[[2,3],[[4],[]],[],[]],"
    "\"stream\":0,\"finished\":false,\"Ev Idx\":0}},\n"
    "{\"ph\":\"s\",\"id\":1,\"pid\":1,\"tid\":2,\"ts\":1.500,\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\"},\n"
    "{\"ph\":\"s\",\"id\":9,\"pid\":1,\"tid\":2,\"ts\":1.500,\"cat\":\"ac2g\",\"name\":\"ac2g\"},\n"
    "{}]\n";

void test_one_operator() {
  Fixture fixture;
  ChromeWriter writer(fixture.trace());
  TextBuffer out(1);
  CHECK(writer.write(out, 1 << 20));
  CHECK_SAME(out.view(), kExpected);
  TextBuffer more(1);
  CHECK(!writer.write(more, 1 << 20));
  CHECK(more.size() == 0);
}

void test_blocks_are_whole_rows() {
  Fixture fixture;
  ChromeWriter writer(fixture.trace());
  std::string joined;
  int blocks = 0;
  for (;; ++blocks) {
    TextBuffer out(1);
    if (!writer.write(out, 1)) break;
    CHECK(out.view().back() == '\n');
    joined += out.view();
  }
  CHECK_SAME(joined, kExpected);
  CHECK(blocks >= 3);
}

// The parent of a Python call is the nearest Python call, and a cycle in a damaged table ends.
void test_python_parents() {
  Fixture fixture;
  fixture.order = {0, 1, 2, 3};
  fixture.track = {0, 0, 0, 0};
  fixture.name = {0, 0, 0, 0};
  fixture.kind = {2, 0, 3, 2};
  fixture.parent = {-1, 0, 1, 3};
  fixture.start = {1'000'000, 1'000'000, 1'000'000, 1'000'000};
  fixture.duration = {0, 0, 0, 0};
  fixture.sequence = {-1, -1, -1, -1};
  ChromeTrace trace = fixture.trace();
  trace.events.overload = constant(fixture.none, 4);
  trace.events.forward_thread = constant(fixture.zero, 4);
  trace.events.record_function_id = constant(fixture.no_id, 4);
  trace.events.unfinished = constant(fixture.unfinished, 4);
  trace.extras = {};
  trace.flows = {};
  ChromeWriter writer(std::move(trace));
  TextBuffer out(1);
  writer.write(out, 1 << 20);
  const std::string_view text = out.view();
  CHECK(text.find("\"Python parent id\":null,\"Python id\":1,") != text.npos);
  CHECK(text.find("\"Python parent id\":1,\"Python id\":3,") != text.npos);
  CHECK(text.find("\"Python parent id\":null,\"Python id\":4,") != text.npos);
}

}  // namespace

int main() {
  test_numbers();
  test_escaping();
  test_names_with_damaged_offsets();
  test_lanes();
  test_many_open_spans();
  test_one_operator();
  test_blocks_are_whole_rows();
  test_python_parents();
  if (failures == 0) std::puts("all passed");
  return failures == 0 ? 0 : 1;
}
