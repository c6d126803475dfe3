// State between two pieces of a window, as bytes.
#include <algorithm>

#include "decode/pieces.h"
#include "log/bytes.h"
#include "log/checked_view.h"

namespace opscope {

namespace {

template <typename Map>
void put_map(ByteWriter& out, const Map& map) {
  out.put(uint64_t{map.size()});
  for (const auto& [key, value] : map) {
    out.put(key);
    out.put(value);
  }
}

template <typename Map>
void get_map(ByteReader& in, Map& map) {
  map.clear();
  for (uint64_t left = in.get_count(1); left > 0; --left) {
    typename Map::key_type key{};
    typename Map::mapped_type value{};
    in.get(key);
    in.get(value);
    map.emplace(key, value);
  }
}

constexpr int32_t kMostInstances = 1 << 30;

// Whether `row` is kNone or a row of a table of this size.
bool is_row(int64_t row, size_t count) { return row >= kNone && row < static_cast<int64_t>(count); }

template <typename Map>
bool are_rows(const Map& map, size_t count) {
  return std::all_of(map.begin(), map.end(), [count](const auto& entry) {
    return entry.second >= 0 && static_cast<size_t>(entry.second) < count;
  });
}

// Checks a restored state: sizes match, and every number is a valid position.
class StateCheck {
 public:
  explicit StateCheck(const PieceState& state) : state_(state) {}

  void run() const {
    require(state_.clock->is_sound(), "the clock of its segments has impossible times");
    require(state_.latest_start_ns < kLatest_ns, "its segments end at an impossible time");
    require(state_.events >= 0, "its segments have a negative number of events");
    check_threads();
    check_names();
  }

 private:
  void check_threads() const {
    const auto written = static_cast<size_t>(state_.threads_written);
    require(state_.threads_written >= 0 && written <= state_.threads.size(),
            "its segments have more threads than the recording");
    std::set<uint64_t> numbers;
    for (const CarriedThread& thread : state_.threads) {
      const CarriedThread::Facts& facts = thread.facts;
      require(is_flag(facts.has_log) && is_flag(facts.is_new), "a flag is neither 0 nor 1");
      require(is_row(facts.row, written), "a thread of its segments refers to a row that does not exist");
      require(facts.end <= kMostRecords && facts.next_root >= 0 && facts.next_root < kLatest_ns,
              "a thread of its segments has an impossible position");
      require(!facts.has_log || numbers.insert(facts.number).second, "two threads have the same number");
      for (size_t i = 0; i < thread.spans.size(); ++i) check_span(thread, i);
      for (const CarriedPlace& place : thread.places)
        require(is_row(place.around, thread.spans.size()),
                "a call site refers to a span that does not exist");
    }
  }

  // Spans that ran at the start come first.
  void check_span(const CarriedThread& thread, size_t i) const {
    const CarriedSpan& span = thread.spans[i];
    const WrittenRow& row = span.row;
    require(
        is_flag(span.is_initial) && is_flag(row.unfinished) && is_flag(row.raised) && is_flag(row.is_async),
        "a flag is neither 0 nor 1");
    check_record(span.record);
    require(is_span(span.record.kind), "a record that continues after its segments is not a span");
    require(!span.is_initial || i == 0 || thread.spans[i - 1].is_initial,
            "a span that ran at the start follows a later one");
    require(is_row(span.caller, i), "a span has a later span as its caller");
    require(row.event >= 0 && row.event < state_.events, "a span refers to a row that does not exist");
    require(is_row(row.parent, static_cast<size_t>(row.event)), "a span has a later span as its parent");
    require(row.start_ns > -kLatest_ns && row.start_ns < kLatest_ns && row.duration_ns >= 0,
            "a span has impossible times");
    require(span.index <= kMostRecords, "a span has an impossible position");
  }

  void check_names() const {
    const PythonRows& python = state_.python;
    const size_t names = state_.names.size();
    for (const auto& [number, frame] : python.frames) {
      require(frame.row >= 0 && static_cast<size_t>(frame.row) < python.frames.size(),
              "a function refers to a row that does not exist");
      require(frame.name >= 0 && static_cast<size_t>(frame.name) < names,
              "a function refers to a name that does not exist");
    }
    for (const int32_t name : python.module_names)
      require(name >= 0 && static_cast<size_t>(name) < names,
              "a module refers to a name that does not exist");
    require(python.module_names.size() == python.modules.size(), "there are more modules than module names");
    require(are_rows(python.modules, python.modules.size()), "a module refers to a row that does not exist");
    require(are_rows(python.optimizers, python.optimizers.size()),
            "an optimizer refers to a row that does not exist");
    require(are_rows(python.instances_of_class, kMostInstances),
            "a class has an impossible number of modules");
  }

  const PieceState& state_;
};

}  // namespace

std::string PieceState::bytes() const {
  ByteWriter out;
  out.put(clock.value());
  out.put(latest_start_ns);
  out.put(events);
  out.put(threads_written);
  out.put(unmatched_ends);
  out.put(cut_payloads);
  out.put(uint64_t{threads.size()});
  for (const CarriedThread& thread : threads) {
    out.put(thread.facts);
    out.put_all(thread.spans);
    out.put_all(thread.places);
  }
  put_map(out, python.frames);
  put_map(out, python.modules);
  put_map(out, python.optimizers);
  out.put(uint64_t{python.instances_of_class.size()});
  for (const auto& [name, count] : python.instances_of_class) {
    out.put_text(name);
    out.put(count);
  }
  out.put_all(python.module_names);
  out.put(uint64_t{parameters_read.size()});
  for (const auto& read : parameters_read) {
    out.put(read.first);
    out.put(read.second);
  }
  return std::move(out.bytes);
}

void PieceState::restore(std::string_view bytes) {
  ByteReader in(bytes);
  clock.emplace(ClockAnchor{}, ClockAnchor{}, ClockAnchor{}, 0);
  in.get(*clock);
  in.get(latest_start_ns);
  in.get(events);
  in.get(threads_written);
  in.get(unmatched_ends);
  in.get(cut_payloads);
  in.get_each(threads, [&in](CarriedThread& thread) {
    in.get(thread.facts);
    in.get_all(thread.spans);
    in.get_all(thread.places);
  });
  get_map(in, python.frames);
  get_map(in, python.modules);
  get_map(in, python.optimizers);
  for (uint64_t left = in.get_count(1); left > 0; --left) {
    const std::string name = in.get_text();
    in.get(python.instances_of_class[name]);
  }
  in.get_all(python.module_names);
  for (uint64_t left = in.get_count(1); left > 0; --left) {
    std::pair<Owner, uint32_t> read;
    in.get(read.first);
    in.get(read.second);
    parameters_read.insert(read);
  }
  require(in.is_empty(), "the state of the decoder does not end where it should");
  StateCheck(*this).run();
}

DrainedParts PieceState::drained() const {
  DrainedParts parts;
  for (const CarriedThread& thread : threads) {
    if (!thread.facts.has_log) continue;
    const uint64_t end = thread.facts.end;
    DrainedPart& part = parts[thread.facts.number];
    part.end = end;
    for (const CarriedSpan& span : thread.spans) {
      if (!span.is_initial && span.record.load_state() == SpanState::kOpen) part.open.push_back(span.index);
    }
    for (const CarriedPlace& place : thread.places)
      part.open.push_back(end - (static_cast<uint32_t>(end) - place.index));
  }
  return parts;
}

uint64_t PieceState::position(uint64_t thread) const {
  const auto known = std::find_if(threads.begin(), threads.end(), [thread](const CarriedThread& carried) {
    return carried.facts.has_log && carried.facts.number == thread;
  });
  return known == threads.end() ? 0 : known->facts.end;
}

}  // namespace opscope
