// Appends events of a Chrome file to columns, in the order of the file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "parsers/argument_rows.h"
#include "parsers/event_columns.h"
#include "parsers/json_numbers.h"
#include "parsers/json_value.h"
#include "parsers/text_rows.h"
#include "parsers/thread_rows.h"

namespace opscope::readers {

// Meaning of a category in a Chrome file, from a table in Python.
struct CategoryMeaning {
  int16_t gpu_kind = -1;    // -1: no device activity
  uint8_t span_kind = 0;    // used if gpu_kind is -1
  uint8_t device_type = 0;  // of device activity
  bool is_mark = false;     // begin or end of the profiler that wrote the file
  bool is_overhead = false;
  bool is_unknown = false;             // the kind depends on the span
  bool has_counters = false;           // arguments are hardware counters
  bool keeps_gpu_category = false;     // keeps the category of device work: writers would choose another
  bool keeps_driver_category = false;  // the same for spans named like driver calls
  bool keeps_other_category = false;   // the same for other spans
};

// Called once per category.
using MeaningOf = std::function<CategoryMeaning(std::string_view)>;

// Tables of names, known before a file is read.
struct Vocabulary {
  DtypeCodes dtypes;
  std::unordered_map<std::string, int32_t> overheads;
  std::vector<std::string> known_keys;  // of `args` of operators: no keyword arguments
  std::string beside;                   // key of `args` with the thread beside which a line is
  Bounds bytes;
  int64_t longest_ns = 0;
};

// Counts of omitted events, by a text that describes them.
class Counts {
 public:
  void add(std::string_view text) {
    const auto row = static_cast<size_t>(texts.row_of(text));
    if (row == numbers.size()) numbers.push_back(0);
    ++numbers[row];
  }

  TextRows texts;
  std::vector<int64_t> numbers;
};

class EventCollector {
 public:
  EventCollector(const Vocabulary& vocabulary, MeaningOf meaning);
  EventCollector(const EventCollector&) = delete;
  EventCollector& operator=(const EventCollector&) = delete;

  void take(const FoundEvent& event);
  const TextRows& categories() const { return categories_; }

  TextRows texts;  // rows of names
  ThreadRows threads;
  SpanColumns spans;
  AllocationColumns allocations;
  GpuColumns gpu;
  OverheadColumns overheads;
  FlowColumns flows;
  ArgumentRows arguments;
  std::vector<int64_t> launch_arrows;  // ids of arrows from launches, at their targets
  int64_t seen = 0;
  int64_t marks = 0;
  int64_t without_time = 0;
  int64_t without_duration = 0;  // missing or negative; 0 is used
  int64_t ends_without_beginning = 0;
  int64_t ends_before_beginning = 0;  // the start is used
  int64_t without_size = 0;           // memory events with a missing or impossible size; 0 is used
  int64_t counters = 0;               // samples of counters, which are not kept
  int64_t other_instants = 0;
  Counts other_phases;
  Counts other_flows;

 private:
  void complete(const FoundEvent& event);
  void begin(const FoundEvent& event, bool is_async);
  void end(const FoundEvent& event, std::vector<int32_t>& open);
  std::vector<int32_t>& open_on_thread(const FoundEvent& event);
  std::vector<int32_t>& open_of_id(const FoundEvent& event);
  void instant(const FoundEvent& event);
  void flow(const FoundEvent& event, bool is_target);
  void describe(const FoundEvent& event);
  void add_span(const FoundEvent& event, const CategoryMeaning& category, int64_t start_ns,
                int64_t duration_ns);
  void add_allocation(const FoundEvent& event, int64_t time_ns);
  void add_gpu(const FoundEvent& event, const CategoryMeaning& category, int64_t start_ns);
  bool add_overhead(const FoundEvent& event, int64_t start_ns);
  void add_lengths(Lists& lists, const Value& list);

  const CategoryMeaning& meaning_of(const Value& category);
  std::string_view printed(const Value& value);
  int64_t duration_of(const FoundEvent& event);
  int64_t number(const FoundEvent& event, std::string_view key, int64_t otherwise, Bounds bounds = kInt64) {
    return integer(event.argument(key), otherwise, bounds);
  }

  const Vocabulary& vocabulary_;
  MeaningOf meaning_;
  TextRows categories_;
  std::vector<CategoryMeaning> meanings_;
  int32_t category_ = -1;                   // of the last lookup
  std::vector<std::vector<int32_t>> open_;  // by thread: open spans
  TextRows async_keys_;
  std::vector<std::vector<int32_t>> async_open_;  // by category, id, scope and process
  std::string async_key_;
  std::string scratch_;
};

}  // namespace opscope::readers
