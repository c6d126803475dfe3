#include "writers/perfetto.h"

#include <algorithm>
#include <cstring>

#include "writers/protobuf.h"
#include "writers/wrapping_times.h"

namespace opscope::writers {
namespace {

// Field numbers of perfetto/trace/trace_packet.proto and its messages.
constexpr uint32_t kTracePacket = 1;
namespace packet {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11;
constexpr uint32_t kInternedData = 12, kSequenceFlags = 13, kDefaults = 59;
}  // namespace packet
namespace track_event {
constexpr uint32_t kCategory = 3, kAnnotation = 4, kType = 9, kName = 10, kTrack = 11;
constexpr uint32_t kCounterValue = 30, kFlowStarts = 47, kFlowEnds = 48;
constexpr uint32_t kSliceBegin = 1, kSliceEnd = 2, kCounter = 4;
}  // namespace track_event
namespace interned {
constexpr uint32_t kCategory = 1, kName = 2, kAnnotationName = 3, kAnnotationText = 29;
constexpr uint32_t kIid = 1, kText = 2;
}  // namespace interned
namespace annotation {
constexpr uint32_t kNameIid = 1, kBool = 2, kInt = 4, kTextIid = 17;
}  // namespace annotation

constexpr uint32_t kStateCleared = 1;       // SEQ_INCREMENTAL_STATE_CLEARED
constexpr uint32_t kBootTime = 6;           // reference clock of viewers
constexpr uint32_t kIncrementalClock = 64;  // first id that a sequence may define

// Annotation names not from the trace, numbered after those from it.
constexpr size_t kUnfinishedKey = 0, kInputsKey = 1, kFirstKey = 2;

constexpr char tag(uint32_t field, Wire wire) {
  return static_cast<char>(field << 3 | static_cast<uint32_t>(wire));
}

// Maximum size of a packet without nested texts, and its arrows: below 128, so that lengths need one byte.
constexpr size_t kPlainBytes = 120;
constexpr size_t kPlainFlows = 4;

void append_entry(std::string& fields, uint32_t field, uint64_t iid, std::string_view text) {
  TextBuffer out(text.size() + 32);
  Nested entry(out, field);
  put_field(out, interned::kIid, iid);
  put_bytes(out, interned::kText, text);
  entry.close();
  fields.append(out.view());
}

}  // namespace

PerfettoWriter::PerfettoWriter(PerfettoTrace trace)
    : trace_(std::move(trace)), sequence_(trace_.first_sequence) {}

bool PerfettoWriter::write(TextBuffer& out, size_t bytes) {
  bool wrote = false;
  if (!started_) {
    out.put(trace_.header);
    started_ = wrote = true;
  }
  while (out.size() < bytes && next_line()) {
    wrote = true;
    if (table_ < trace_.spans.size()) {
      write_spans(out, bytes);
    } else {
      write_counter(out, bytes);
    }
  }
  return wrote;
}

// Skips to the first table with a line left. False at the end of the trace.
bool PerfettoWriter::next_line() {
  while (table_ < trace_.spans.size() && line_ >= trace_.spans[table_].tracks.size()) {
    ++table_;
    line_ = 0;
  }
  return table_ < trace_.spans.size() || line_ < trace_.counters.size();
}

// Writes the current line, or as much of it as fits.
void PerfettoWriter::write_spans(TextBuffer& out, size_t bytes) {
  const PerfettoSpans& spans = trace_.spans[table_];
  const auto end = static_cast<size_t>(spans.lines[line_ + 1]);
  if (!in_line_) {
    begin_sequence(out, spans.tracks[line_]);
    next_ = static_cast<size_t>(spans.lines[line_]);
  }
  for (; next_ < end; ++next_) {
    if (out.size() >= bytes) return;
    ++written_;
    const auto row = static_cast<size_t>(spans.order[next_]);
    const int64_t start_ns = spans.start_ns[row];
    close_until(out, start_ns);
    write_begin(out, row);
    open_.push_back(sum_of(start_ns, std::max<int64_t>(spans.duration_ns[row], 0)));
  }
  close_until(out, INT64_MAX);
  in_line_ = false;
  ++line_;
}

void PerfettoWriter::write_counter(TextBuffer& out, size_t bytes) {
  const PerfettoCounter& counter = trace_.counters[line_];
  if (!in_line_) {
    begin_sequence(out, counter.track);
    next_ = 0;
  }
  for (; next_ < counter.time_ns.size; ++next_) {
    if (out.size() >= bytes) return;
    ++written_;
    char* const begin = out.reserve(kPlainBytes);
    char* p = put_head(begin, static_cast<uint64_t>(counter.time_ns[next_]));
    *p++ = tag(packet::kTrackEvent, Wire::kBytes);
    char* const event = ++p;
    *p++ = tag(track_event::kType, Wire::kVarint);
    *p++ = static_cast<char>(track_event::kCounter);
    p = put_varint(p, track_event::kCounterValue << 3);
    p = put_varint(p, static_cast<uint64_t>(counter.value[next_]));
    event[-1] = static_cast<char>(p - event);
    begin[1] = static_cast<char>(p - begin - 2);
    out.commit(p);
  }
  in_line_ = false;
  ++line_;
}

// Clears the interned texts and writes the defaults of the sequence's later packets.
void PerfettoWriter::begin_sequence(TextBuffer& out, uint64_t track) {
  in_line_ = true;
  ++sequence_;
  last_ns_ = trace_.base_ns;
  names_.forget(), categories_.forget(), keys_.forget(), texts_.forget();

  Nested first(out, kTracePacket);
  put_field(out, packet::kSequence, sequence_);
  put_field(out, packet::kSequenceFlags, kStateCleared);
  Nested defaults(out, packet::kDefaults);
  put_field(out, 58, kIncrementalClock);  // timestamp_clock_id
  Nested event(out, 11);                  // track_event_defaults
  put_field(out, track_event::kTrack, track);
  event.close();
  defaults.close();
  first.close();

  Nested second(out, kTracePacket);
  put_field(out, packet::kSequence, sequence_);
  Nested snapshot(out, packet::kClockSnapshot);
  Nested absolute(out, 1);
  put_field(out, 1, kBootTime);
  put_field(out, 2, static_cast<uint64_t>(trace_.base_ns));
  absolute.close();
  Nested incremental(out, 1);
  put_field(out, 1, kIncrementalClock);
  put_field(out, 2, 0);
  put_field(out, 3, 1);  // is_incremental
  incremental.close();
  snapshot.close();
  second.close();
}

// Ends the spans that are over at `time_ns`, innermost first.
void PerfettoWriter::close_until(TextBuffer& out, int64_t time_ns) {
  while (!open_.empty() && open_.back() <= time_ns) {
    char* const begin = out.reserve(kPlainBytes);
    char* p = put_head(begin, static_cast<uint64_t>(open_.back()));
    *p++ = tag(packet::kTrackEvent, Wire::kBytes);
    *p++ = 2;
    *p++ = tag(track_event::kType, Wire::kVarint);
    *p++ = static_cast<char>(track_event::kSliceEnd);
    begin[1] = static_cast<char>(p - begin - 2);
    out.commit(p);
    open_.pop_back();
  }
}

// Writes a packet's tag and length (which the caller sets at p[1]), time and sequence.
char* PerfettoWriter::put_head(char* p, uint64_t time_ns) {
  *p++ = tag(kTracePacket, Wire::kBytes);
  *p++ = 0;
  *p++ = tag(packet::kTimestamp, Wire::kVarint);
  p = put_varint(p, time_ns - static_cast<uint64_t>(last_ns_));
  last_ns_ = static_cast<int64_t>(time_ns);
  *p++ = tag(packet::kSequence, Wire::kVarint);
  return put_varint(p, sequence_);
}

void PerfettoWriter::write_begin(TextBuffer& out, size_t row) {
  const PerfettoSpans& spans = trace_.spans[table_];
  const auto category_row = spans.category[row];
  const auto [name_iid, name_is_new] = names_.number(static_cast<size_t>(spans.name[row] + 1));
  const auto [category_iid, category_is_new] = categories_.number(category_row);
  const int64_t inputs = inputs_text(row);
  const auto flows = spans.flow_rows[row];
  last_ns_ = std::min(last_ns_, spans.start_ns[row]);  // prevents overflow with a damaged trace
  if (!name_is_new && !category_is_new && is_plain(row, flows.end - flows.begin)) [[likely]] {
    const uint32_t key = inputs < 0 ? 0 : keys_.known(kInputsKey);
    const uint32_t text = inputs < 0 ? 0 : texts_.known(static_cast<size_t>(inputs));
    if (inputs < 0 || (key != 0 && text != 0)) {
      write_plain_begin(out, row, name_iid, category_iid, key, text);
      return;
    }
  }
  interned_.clear();
  if (name_is_new) append_entry(interned_, interned::kName, name_iid, name(spans.name[row]));
  if (category_is_new) {
    append_entry(interned_, interned::kCategory, category_iid, trace_.categories[category_row]);
  }
  Nested whole(out, kTracePacket);
  put_field(out, packet::kTimestamp, static_cast<uint64_t>(difference_of(spans.start_ns[row], last_ns_)));
  last_ns_ = spans.start_ns[row];
  put_field(out, packet::kSequence, sequence_);
  Nested event(out, packet::kTrackEvent);
  put_field(out, track_event::kType, track_event::kSliceBegin);
  put_field(out, track_event::kCategory, category_iid);
  put_field(out, track_event::kName, name_iid);
  write_flows(out, row);
  write_annotations(out, row, inputs);
  event.close();
  if (!interned_.empty()) put_bytes(out, packet::kInternedData, interned_);
  whole.close();
}

// Number of the text of a span's arguments, -1 if they were not recorded.
int64_t PerfettoWriter::inputs_text(size_t row) {
  const PerfettoInputs* inputs = trace_.spans[table_].inputs;
  if (inputs == nullptr || !inputs->has(row)) return -1;
  return static_cast<int64_t>(text_index_.number(inputs->hash(row), [&] { return inputs->text(row); }));
}

// Whether a span has only a name, category, arguments and a few arrows.
bool PerfettoWriter::is_plain(size_t row, size_t flows) const {
  const PerfettoSpans& spans = trace_.spans[table_];
  return flows <= kPlainFlows && (spans.unfinished.empty() || !spans.unfinished[row]) &&
         spans.numbers.empty() && spans.lists.empty();
}

// Writes a span whose texts the sequence has already interned, without patching lengths later: nearly every
// span. `inputs_text` is 0 for none.
void PerfettoWriter::write_plain_begin(TextBuffer& out, size_t row, uint32_t name, uint32_t category,
                                       uint32_t inputs_key, uint32_t inputs_text) {
  const PerfettoSpans& spans = trace_.spans[table_];
  char* const begin = out.reserve(kPlainBytes);
  char* p = put_head(begin, static_cast<uint64_t>(spans.start_ns[row]));
  *p++ = tag(packet::kTrackEvent, Wire::kBytes);
  char* const event = ++p;
  *p++ = tag(track_event::kType, Wire::kVarint);
  *p++ = static_cast<char>(track_event::kSliceBegin);
  *p++ = tag(track_event::kCategory, Wire::kVarint);
  p = put_varint(p, category);
  *p++ = tag(track_event::kName, Wire::kVarint);
  p = put_varint(p, name);
  const auto flows = spans.flow_rows[row];
  for (size_t i = flows.begin; i < flows.end; ++i) {
    const uint32_t field = spans.flow_ends[i] ? track_event::kFlowEnds : track_event::kFlowStarts;
    p = put_varint(p, field << 3 | static_cast<uint32_t>(Wire::kFixed64));
    const uint64_t id = spans.flow_id[i];
    std::memcpy(p, &id, sizeof(id));
    p += sizeof(id);
  }
  if (inputs_text != 0) {
    *p++ = tag(track_event::kAnnotation, Wire::kBytes);
    char* const annotation = ++p;
    *p++ = tag(annotation::kNameIid, Wire::kVarint);
    p = put_varint(p, inputs_key);
    p = put_varint(p, annotation::kTextIid << 3);
    p = put_varint(p, inputs_text);
    annotation[-1] = static_cast<char>(p - annotation);
  }
  event[-1] = static_cast<char>(p - event);
  begin[1] = static_cast<char>(p - begin - 2);
  out.commit(p);
}

void PerfettoWriter::write_flows(TextBuffer& out, size_t row) const {
  const PerfettoSpans& spans = trace_.spans[table_];
  const auto flows = spans.flow_rows[row];
  for (size_t i = flows.begin; i < flows.end; ++i) {
    put_fixed(out, spans.flow_ends[i] ? track_event::kFlowEnds : track_event::kFlowStarts, spans.flow_id[i]);
  }
}

void PerfettoWriter::write_annotations(TextBuffer& out, size_t row, int64_t inputs) {
  const PerfettoSpans& spans = trace_.spans[table_];
  if (!spans.unfinished.empty() && spans.unfinished[row]) {
    Nested annotation(out, track_event::kAnnotation);
    write_key(out, kUnfinishedKey, "unfinished");
    put_field(out, annotation::kBool, 1);
    annotation.close();
  }
  if (inputs >= 0) write_text(out, kInputsKey, "inputs", static_cast<size_t>(inputs));
  size_t key = kFirstKey;
  for (const PerfettoNumber& number : spans.numbers) {
    const int64_t value = number.value[row];
    if (value != number.absent) {
      Nested annotation(out, track_event::kAnnotation);
      write_key(out, key, number.name);
      put_field(out, annotation::kInt, static_cast<uint64_t>(value));
      annotation.close();
    }
    ++key;
  }
  for (const PerfettoList& list : spans.lists) {
    const auto values = list.values[row];
    if (!values.empty()) write_text(out, key, list.name, text_of_list(values));
    ++key;
  }
}

size_t PerfettoWriter::text_of_list(std::span<const int64_t> values) {
  uint64_t hash = 2;  // differs from the start of the hashes of inputs
  for (const int64_t value : values) hash = mix_hash(hash, static_cast<uint64_t>(value));
  return text_index_.number(hash, [values] {
    std::string text;
    append_list(text, values);
    return text;
  });
}

void PerfettoWriter::write_key(TextBuffer& out, size_t key, std::string_view name) {
  const auto [iid, is_new] = keys_.number(key);
  if (is_new) append_entry(interned_, interned::kAnnotationName, iid, name);
  put_field(out, annotation::kNameIid, iid);
}

void PerfettoWriter::write_text(TextBuffer& out, size_t key, std::string_view name, size_t text) {
  Nested annotation(out, track_event::kAnnotation);
  write_key(out, key, name);
  const auto [iid, is_new] = texts_.number(text);
  if (is_new) append_entry(interned_, interned::kAnnotationText, iid, text_index_[text]);
  put_field(out, annotation::kTextIid, iid);
  annotation.close();
}

std::string_view PerfettoWriter::name(int32_t row) const {
  const auto i = static_cast<size_t>(row);
  if (row < 0 || i + 1 >= trace_.name_offsets.size) return {};
  const auto begin = static_cast<size_t>(trace_.name_offsets[i]);
  const auto end = static_cast<size_t>(trace_.name_offsets[i + 1]);
  return {reinterpret_cast<const char*>(trace_.name_bytes.data) + begin, end - begin};
}

}  // namespace opscope::writers
