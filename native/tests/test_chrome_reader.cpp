// Reader of Chrome JSON, under sanitizers: complete, in pieces, and damaged. Python tests check numbers.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "parsers/chrome_reader.h"

using namespace opscope;
using namespace opscope::readers;

namespace {

CategoryMeaning meaning_of(std::string_view category) {
  CategoryMeaning meaning;
  if (category == "kernel") meaning.gpu_kind = 0;
  meaning.span_kind = category == "cpu_op" ? 0 : 1;
  return meaning;
}

const Vocabulary& vocabulary() {
  static const Vocabulary all{
      .dtypes = {{"float", 6}},
      .overheads = {{"Buffer Flush", 1}},
      .known_keys = {"External id", "Input type", "Input Dims", "Input Strides", "Concrete Inputs"},
      .beside = "overlaps tid",
      .bytes = {-(int64_t{1} << 62), int64_t{1} << 62},
      .longest_ns = (int64_t{1} << 61) - 1};
  return all;
}

struct Read {
  std::string categories;  // in order of requests
  std::unique_ptr<ChromeReader> reader;
  bool is_sound = false;

  Read(std::string_view text, size_t piece, bool mends = false)
      : reader(std::make_unique<ChromeReader>(
            vocabulary(),
            [this](std::string_view category) {
              categories += std::string(category) + ";";
              return meaning_of(category);
            },
            mends)) {
    for (size_t at = 0; at < text.size(); at += piece) {
      // Separate memory, so that sanitizers detect reads beyond it.
      const std::string part(text.substr(at, piece));
      reader->add(part);
    }
    is_sound = reader->finish();
  }
  EventCollector& all() { return reader->collector(); }
};

const std::string kFile = R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "a\"b"}],
 "traceEvents": [
  {"ph": "M", "name": "thread_name", "pid": 9, "tid": 1, "ts": 0, "args": {"name": "ma\u0069n"}},
  {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 9, "tid": 1, "ts": 12.500, "dur": 2,
   "args": {"External id": 5, "Input type": ["float", "Scalar", "TensorList"],
    "Input Dims": [[2, 3], [], [[1], [4, 5]]], "Input Strides": [[3, 1], [], [[1], [5, 1]]],
    "Concrete Inputs": ["", "2.5", ""], "stream": 7, "flag": true}},
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20.0015, "dur": "1.5",
   "args": {"grid": [2, 1, 1, 9], "block": [128], "stream": 7, "correlation": 77}},
  {"ph": "i", "name": "[memory]", "pid": 9, "tid": 1, "ts": 13,
   "args": {"Addr": 18446744073709551600, "Bytes": 64, "Device Id": -1}},
  {"ph": "s", "cat": "fwdbwd", "id": 1, "pid": 9, "tid": 1, "ts": 12},
  {"ph": "f", "cat": "ac2g", "id": 77, "pid": 0, "tid": 7, "ts": 12},
  {"ph": "B", "name": "open", "pid": 9, "tid": 2, "ts": 3}, {"ph": "E", "pid": 9, "tid": 2, "ts": 5},
  {"ph": "?", "name": "unknown", "pid": 1, "ts": 0}
 ], "traceName": "x", "last": [1.5, {"a": null}]})";

void check_whole(Read& read) {
  CHECK(read.is_sound);
  EventCollector& all = read.all();
  CHECK_SAME(all.seen, 9);
  CHECK_SAME(all.spans.start_ns, std::vector<int64_t>{12500, 3000});
  CHECK_SAME(all.spans.duration_ns, std::vector<int64_t>{2000, 2000});
  CHECK_SAME(all.spans.external_id, std::vector<int64_t>{5, -1});
  CHECK_SAME(std::string(all.texts[all.spans.name[0]]), "aten::add");
  CHECK_SAME(all.arguments.tensors.sizes.values, std::vector<int64_t>{2, 3, 1, 4, 5});
  CHECK_SAME(all.arguments.tensors.sizes.offsets, std::vector<int64_t>{0, 2, 3, 5});
  CHECK_SAME(all.arguments.tensors.element, std::vector<int32_t>{-1, 0, 1});
  CHECK_SAME(all.arguments.scalars.value.size(), 3u);  // and two keywords
  CHECK_SAME(all.gpu.start_ns, std::vector<int64_t>{20002});
  CHECK_SAME(all.gpu.duration_ns, std::vector<int64_t>{1500});
  CHECK_SAME(all.gpu.grid.values, std::vector<int64_t>{2, 1, 1});
  CHECK_SAME(all.allocations.address, std::vector<uint64_t>{18446744073709551600u});
  CHECK_SAME(all.flows.id, std::vector<int64_t>{1});
  CHECK_SAME(all.launch_arrows, std::vector<int64_t>{77});
  CHECK_SAME(*all.threads.threads()[0].name, "main");
  CHECK_SAME(all.other_phases.numbers, std::vector<int64_t>{1});
  CHECK_SAME(read.categories, "cpu_op;kernel;;");
  CHECK_SAME(read.reader->others(), R"({"schemaVersion": 1,"deviceProperties": [{"id": 0, "name": "a\"b"}],)"
                                    R"("traceName": "x","last": [1.5, {"a": null}]})");
}

std::string problem_of(std::string_view text, bool mends = false) {
  const Read read(text, 7, mends);
  const Problem problem = read.reader->problem().value();
  return std::string(problem.what) + (problem.is_at_end ? " at the end, " : " at ") +
         std::to_string(problem.line) + ":" + std::to_string(problem.column);
}

}  // namespace

TEST(pieces_of_any_size_are_one_file) {
  for (size_t piece = 1; piece < kFile.size() + 1; piece += piece < 40 ? 1 : 97) {
    Read read(kFile, piece);
    check_whole(read);
    Read again(kFile, piece, true);
    check_whole(again);
  }
}

TEST(invalid_json_is_reported_with_its_place) {
  CHECK_SAME(problem_of(""), "Expecting value at the end, 1:1");
  CHECK_SAME(problem_of("[1,\n é]"), "Expecting value at 2:2");
  CHECK_SAME(problem_of("{\"é\" 1}"), "Expecting ':' delimiter at 1:6");
  CHECK_SAME(problem_of("{\"a\": 1,}"), "Expecting property name enclosed in double quotes at 1:9");
  CHECK_SAME(problem_of("[1 2]"), "Expecting ',' delimiter at 1:4");
  CHECK_SAME(problem_of("[\"a\\q\"]"), "Invalid \\escape at 1:4");
  CHECK_SAME(problem_of("[\"a\\u12x4\"]"), "Invalid \\uXXXX escape at 1:5");
  CHECK_SAME(problem_of("[] ]"), "Extra data at 1:4");
  CHECK_SAME(problem_of("[-]"), "Expecting value at 1:2");
  CHECK_SAME(problem_of("[01]"), "Expecting ',' delimiter at 1:3");
  CHECK_SAME(problem_of("[nul]"), "Expecting value at 1:2");
  for (const char* const cut :
       {"[nul", "[\"abc", "[\"a\\", "[\"\\u1", "[-", "[1,", "[1", "[", "{\"a", "{\"a\":"})
    CHECK(problem_of(cut).find("at the end, 1:" + std::to_string(std::string(cut).size() + 1)) !=
          std::string::npos);
}

// Damaged files give a problem, or columns of equal lengths, without invalid reads.
TEST(damaged_files_end_in_a_problem_or_in_columns) {
  std::mt19937 random(7);
  const std::vector<std::string> noise{
      "\"", "\\", ",", "{", "}",   "[",   "]", ":",       std::string(1, '\0'), "\\u12", "\\ud800", "\n",
      "1",  "-",  "e", ".", "NaN", "nul", "é", "{\"ph\":"};
  int sound = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = kFile;
    const size_t changes = 1 + random() % 3;
    for (size_t i = 0; i < changes; ++i) {
      const size_t at = random() % text.size();
      const std::string& what = noise[random() % noise.size()];
      switch (random() % 4) {
        case 0:
          text.resize(at + 1);
          break;
        case 1:
          text.replace(at, 1, what);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 60));
          break;
        default:
          text.erase(at, 1 + random() % 8);
      }
      if (text.empty()) break;
    }
    Read read(text, 1 + random() % 400, random() % 2 == 0);
    sound += read.is_sound;
    EventCollector& all = read.all();
    const size_t rows = all.spans.thread.size();
    all.spans.each([&](const char*, auto& column) { CHECK_SAME(column.size(), rows); });
    CHECK_SAME(all.gpu.grid.offsets.size(), all.gpu.kind.size() + 1);
    for (const int32_t event : all.arguments.tensors.event) CHECK(static_cast<size_t>(event) < rows);
    for (const int32_t name : all.spans.name) CHECK(static_cast<size_t>(name) < all.texts.size());
  }
  CHECK(sound > 500 && sound < 19500);
}

int main() { return opscope::tests::run_all(); }
