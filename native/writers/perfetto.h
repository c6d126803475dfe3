// Writes a trace in Perfetto's native format (.pftrace), block by block.
//
// Each line of the timeline (a thread, a stream, a lane beside one, a counter) is a packet sequence. A
// sequence writes each name once and refers to it by a small number; times are nanoseconds since the previous
// packet. So a span needs about 25 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "numpy/column_view.h"
#include "writers/perfetto_inputs.h"
#include "writers/text_buffer.h"

namespace opscope::writers {

// An integer shown with a span unless it equals `absent`.
struct PerfettoNumber {
  std::string name;
  ColumnView<int64_t> value;
  int64_t absent = 0;
};

// A list shown with a span unless it is empty.
struct PerfettoList {
  std::string name;
  ListView values;
};

// Rows of one table, and the lines that show them.
struct PerfettoSpans {
  ColumnView<int32_t> order;     // rows, line by line, by start within a line
  std::vector<int64_t> lines;    // line i has order[lines[i], lines[i + 1])
  std::vector<uint64_t> tracks;  // uuid of each line's track
  ColumnView<int32_t> name;      // row in PerfettoTrace::names
  ColumnView<uint8_t> category;  // row in PerfettoTrace::categories
  ColumnView<int64_t> start_ns;
  ColumnView<int64_t> duration_ns;
  ColumnView<bool> unfinished;  // may be empty
  Rows flow_rows;               // may be empty
  ColumnView<uint64_t> flow_id;
  ColumnView<bool> flow_ends;  // true: the arrow ends here; otherwise it starts here
  std::vector<PerfettoNumber> numbers;
  std::vector<PerfettoList> lists;
  const PerfettoInputs* inputs = nullptr;  // of events with recorded arguments
};

struct PerfettoCounter {
  uint64_t track;
  ColumnView<int64_t> time_ns;  // never decreasing
  ColumnView<int64_t> value;
};

struct PerfettoTrace {
  ColumnView<int64_t> name_offsets;  // name i is name_bytes[o[i], o[i + 1]), in UTF-8
  ColumnView<uint8_t> name_bytes;
  std::vector<std::string> categories;
  std::vector<PerfettoSpans> spans;
  std::vector<PerfettoCounter> counters;
  int64_t base_ns = 0;          // nothing is earlier
  uint32_t first_sequence = 1;  // the header uses lower sequences
  std::string header;           // first packets: clocks, descriptors of all tracks
};

// Not [MT]: one thread at a time. Needs no Python. The columns must outlive it.
class PerfettoWriter {
 public:
  explicit PerfettoWriter(PerfettoTrace trace);
  PerfettoWriter(const PerfettoWriter&) = delete;
  PerfettoWriter& operator=(const PerfettoWriter&) = delete;

  // Appends complete packets until `out` has at least `bytes` or the file is complete. False: nothing was
  // left.
  bool write(TextBuffer& out, size_t bytes);
  size_t rows_written() const { return written_; }

 private:
  // Texts of one kind that the current sequence has interned, numbered from 1 in order.
  class Interned {
   public:
    void forget() { ++epoch_, count_ = 0; }
    // Number of text i, and whether it is new.
    std::pair<uint32_t, bool> number(size_t i) {
      if (i >= entries_.size()) entries_.resize(i + 1);
      Entry& entry = entries_[i];
      if (entry.epoch == epoch_) [[likely]]
        return {entry.number, false};
      entry = {epoch_, ++count_};
      return {entry.number, true};
    }

    // Number of text i, 0 if the sequence has not interned it.
    uint32_t known(size_t i) const {
      return i < entries_.size() && entries_[i].epoch == epoch_ ? entries_[i].number : 0;
    }

   private:
    struct Entry {
      uint32_t epoch = 0;
      uint32_t number = 0;
    };
    std::vector<Entry> entries_;
    uint32_t epoch_ = 1;
    uint32_t count_ = 0;
  };

  bool next_line();
  void write_spans(TextBuffer& out, size_t bytes);
  void write_counter(TextBuffer& out, size_t bytes);
  void begin_sequence(TextBuffer& out, uint64_t track);
  void close_until(TextBuffer& out, int64_t time_ns);
  void write_begin(TextBuffer& out, size_t row);
  int64_t inputs_text(size_t row);
  bool is_plain(size_t row, size_t flows) const;
  void write_plain_begin(TextBuffer& out, size_t row, uint32_t name, uint32_t category, uint32_t inputs_key,
                         uint32_t inputs_text);
  void write_flows(TextBuffer& out, size_t row) const;
  void write_annotations(TextBuffer& out, size_t row, int64_t inputs);
  void write_key(TextBuffer& out, size_t key, std::string_view name);
  void write_text(TextBuffer& out, size_t key, std::string_view name, size_t text);
  size_t text_of_list(std::span<const int64_t> values);
  char* put_head(char* p, uint64_t time_ns);
  std::string_view name(int32_t row) const;

  PerfettoTrace trace_;
  size_t table_ = 0;      // in trace_.spans; then counters
  size_t line_ = 0;       // within the table, or number of the counter
  size_t next_ = 0;       // position within the line
  size_t written_ = 0;    // spans and values of counters
  bool started_ = false;  // the header is written
  bool in_line_ = false;  // the current line's sequence has begun
  uint32_t sequence_;
  int64_t last_ns_ = 0;        // time of the previous packet in this sequence
  std::vector<int64_t> open_;  // ends of the line's open spans, outermost first
  Interned names_, categories_, keys_, texts_;
  TextIndex text_index_;  // texts of lists and inputs, for all sequences
  std::string interned_;  // of the current packet: finished fields of its InternedData
};

}  // namespace opscope::writers
