// What is known between two pieces of a window, as bytes.
#include <algorithm>

#include "decode/pieces.h"
#include "log/bytes.h"

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
  threads.resize(in.get_count(sizeof(CarriedThread::Facts)));
  for (CarriedThread& thread : threads) {
    in.get(thread.facts);
    in.get_all(thread.spans);
    in.get_all(thread.places);
  }
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
}

std::vector<DrainedPart> PieceState::drained() const {
  std::vector<DrainedPart> parts;
  for (const CarriedThread& thread : threads) {
    if (!thread.facts.has_log) continue;
    if (thread.facts.number >= parts.size()) parts.resize(thread.facts.number + 1);
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
