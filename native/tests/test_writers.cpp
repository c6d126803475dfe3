// Writers of Chrome and Perfetto files without Python, under sanitizers: complete rows in blocks of any size,
// and damaged tables. Python tests check the contents.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.h"
#include "vector_columns.h"
#include "writers/chrome_json.h"
#include "writers/perfetto.h"
#include "writers/protobuf.h"

using namespace opscope;
using namespace opscope::tests;
using namespace opscope::writers;

namespace {

template <class T>
ColumnView<T> column(const std::vector<T>& values) {
  return {values.data(), 1, values.size()};
}

// Columns of one operator, called with a tensor, a tensor list, a scalar and a value of unknown kind.
VectorColumns operator_columns() {
  VectorColumns columns;
  columns.set<int64_t>("names.offsets", {0, 2, 5, 6});
  columns.set<uint8_t>("names.bytes", {'m', 'm', 'a', 'b', 'c', '2'});
  for (const char* name : {"order", "track", "name", "forward_thread"}) {
    columns.set<int32_t>(std::string("events.") + name, {0});
  }
  for (const char* name : {"overload", "parent"}) columns.set<int32_t>(std::string("events.") + name, {-1});
  columns.set<uint8_t>("events.kind", {0});
  columns.set<int64_t>("events.start_ns", {1'001'500});
  columns.set<int64_t>("events.duration_ns", {2'250});
  columns.set<int64_t>("events.sequence_number", {7});
  columns.set<bool>("events.unfinished", {true});
  columns.set<int64_t>("tensors.rows", {0, 3});
  columns.set<int16_t>("tensors.argument", {0, 1, 1});
  columns.set<int32_t>("tensors.element", {-1, 0, 1});
  columns.set<uint8_t>("tensors.role", {0, 0, 0});
  columns.set<int8_t>("tensors.dtype", {1, 0, 0});
  columns.set<int64_t>("tensors.sizes.offsets", {0, 2, 3, 3});
  columns.set<int64_t>("tensors.sizes.values", {2, 3, 4});
  columns.set<int64_t>("tensors.strides.offsets", {0, 2, 3, 9});  // the last is damaged
  columns.set<int64_t>("tensors.strides.values", {3, 1, 1});
  columns.set<int64_t>("scalars.rows", {0, 1});
  columns.set<int16_t>("scalars.argument", {3});
  columns.set<uint8_t>("scalars.role", {0});
  columns.set<uint8_t>("scalars.type", {2});
  columns.set<int32_t>("scalars.value", {2});
  columns.set<int64_t>("extras.rows", {0, 1});
  columns.set<int32_t>("extras.fragment", {0});
  columns.set<int64_t>("flows.rows", {0, 2});
  columns.set<int64_t>("flows.id", {1, 9});
  columns.set<uint8_t>("flows.end", {0, 2});
  return columns;
}

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

// Three spans on one line: a(10..50) with b(20..20) inside, then a(50..60).
struct Spans {
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

// Output of a writer, in blocks of this many bytes.
template <class Writer, class Trace>
std::string written(Trace trace, size_t block) {
  Writer writer(std::move(trace));
  std::string file;
  for (;;) {
    TextBuffer out(1);
    if (!writer.write(out, block)) return file;
    file.append(out.view());
  }
}

}  // namespace

TEST(names_with_damaged_offsets) {
  const std::vector<int64_t> offsets = {0, 1, 100, -3, 2};
  const std::vector<uint8_t> bytes = {'a', '"', 'c'};
  const EscapedNames names(column(offsets), column(bytes));
  CHECK_SAME(names[0], "a");
  for (const int32_t row : {1, 2, 3, 4, -1}) CHECK_SAME(names[row], "");
}

TEST(an_operator_of_a_chrome_trace_in_blocks_of_any_size) {
  const VectorColumns columns = operator_columns();
  for (const size_t block : {1u, 100u, 1u << 20}) {
    ChromeTrace trace(columns, {"\"pid\":1,\"tid\":2"}, {"\"stream\":0"});
    trace.base_ns = 1'000'000;
    trace.dtype_names = {"float", "long int"};
    trace.header = "[\n";
    trace.footer = "{}]\n";
    CHECK_SAME(written<ChromeWriter>(std::move(trace), block), kExpected);
  }
}

TEST(spans_of_a_perfetto_trace_in_blocks_of_any_size) {
  const std::string whole = written<PerfettoWriter>(Spans().trace(), 1 << 20);
  CHECK(!whole.empty());
  for (const size_t block : {1u, 7u, 50u, 200u}) {
    CHECK(written<PerfettoWriter>(Spans().trace(), block) == whole);
  }
}

TEST(long_names_values_far_from_zero_and_damaged_tables) {
  Spans spans;
  spans.text = std::string(300000, 'n') + "b";
  spans.offsets = {0, 300000, 300001};
  spans.start = {INT64_MAX / 2, INT64_MAX / 2 + 1, INT64_MAX / 2 + 2};
  spans.duration = {INT64_MAX / 4, 0, 1};
  CHECK(written<PerfettoWriter>(spans.trace(), 64).size() > 300000);
  spans.name = {-1, 99, 1000};
  spans.duration = {-5, INT64_MIN / 2, 3};
  spans.start = {50, 10, 20};  // not in order
  CHECK(!written<PerfettoWriter>(spans.trace(), 1 << 20).empty());
}

TEST(messages_of_any_length_have_their_length_in_front) {
  for (const size_t size : {0u, 1u, 127u, 128u, 16383u, 16384u, 100000u}) {
    TextBuffer out(1);
    Nested outer(out, 1);
    Nested inner(out, 2);
    out.put(std::string(size, 'x'));
    inner.close();
    outer.close();
    std::string_view bytes = out.view();
    for (const uint8_t tag : {0x0A, 0x12}) {
      CHECK_SAME(static_cast<uint8_t>(bytes.front()), tag);
      bytes.remove_prefix(1);
      uint64_t length = 0;
      for (int shift = 0; shift < 64; shift += 7) {
        const auto byte = static_cast<uint8_t>(bytes.front());
        bytes.remove_prefix(1);
        length |= static_cast<uint64_t>(byte & 0x7F) << shift;
        if (byte < 0x80) break;
      }
      CHECK_SAME(length, bytes.size());
    }
    CHECK_SAME(bytes.size(), size);
  }
}

int main() { return run_all(); }
