// Drives the recorder without torch: spans, arguments, windows, and their contents.
#pragma once

#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "decode/columns.h"
#include "log/log_copy.h"
#include "log/payload.h"
#include "log/recorder.h"

namespace opscope::tests {

constexpr uint32_t kAll = kWantOperators | kWantAnnotations | kWantInputs | kWantMemory | kWantGc;

// Log of a window as bytes.
inline std::string copy_of(const LogView& view) {
  std::string copy;
  write_log(view, [&](std::string_view bytes) {
    copy += bytes;
    return 0;
  });
  return copy;
}

inline Recorder& recorder() { return Recorder::instance(); }

inline uint32_t open_window(uint32_t wants = kAll, bool all_threads = true) {
  return recorder().open_window(wants, all_threads);
}

inline void on_another_thread(const std::function<void()>& work) { std::thread(work).join(); }

// Opens a span on this thread; its arguments are `numbers`.
inline void open_span(const char* name, uint64_t key, RecordKind kind = RecordKind::kOperator,
                      const std::vector<int64_t>& numbers = {}) {
  ThreadLog* log = Recorder::this_thread();
  const uint32_t known = log->names.find(name);
  Record* record = log->open_span(key);
  if (record == nullptr) return;
  record->kind = kind;
  record->scope = 0;
  record->op.name = known != kNoName ? known : recorder().intern(log, name);
  record->op.sequence_number = -1;
  record->op.inputs = kNoArena;
  record->op.forward_thread = record->op.place = 0;
  if (!numbers.empty()) {
    Arena& arena = log->arena();
    uint64_t* word = arena.begin() ? arena.reserve(1) : nullptr;
    bool kept = word != nullptr;
    if (kept) {
      *word = make_head(numbers.size(), 0);
      arena.advance(1);
    }
    for (const int64_t number : numbers) {
      word = kept ? arena.reserve(2) : nullptr;
      kept = word != nullptr;
      if (!kept) break;
      word[0] = make_tag(Tag::kLongInt);
      word[1] = static_cast<uint64_t>(number);
      arena.advance(2);
    }
    if (!kept) arena.cancel();
    record->op.inputs = kept ? arena.commit() : kCutArena;
  }
  record->ticks = now_ticks();
  log->publish_span();
}

inline void close_span(uint64_t key) { Recorder::this_thread()->close_span(key, now_ticks()); }

inline void span(const char* name, RecordKind kind = RecordKind::kOperator) {
  const uint64_t key = reinterpret_cast<uintptr_t>(&name);
  open_span(name, key, kind);
  close_span(key);
}

// Records a call of a function with everything that a real call records.
inline void call(RecordKind kind, uint32_t function, uint32_t instance) {
  ThreadLog* log = Recorder::this_thread();
  Record* record = log->open_span(99);
  record->kind = kind;
  record->scope = 0;
  record->call = {99, function, instance, 2};
  record->ticks = now_ticks();
  log->publish_span();
  close_span(99);
}

// Adds a Python function and a module to the journal.
inline void note_function_and_module() {
  const uint64_t address = 0x1234;
  const int32_t line = 7;
  const std::string lines = {0, 4, 1, 4, 2};
  Journal& journal = Recorder::instance().journal();
  journal.append(EntryKind::kFunction, 0, {"train.py", "step", field_of(line), lines});
  journal.append(EntryKind::kModule, 0, {field_of(address), field_of(address), "Linear"});
}

inline void allocation(int64_t size, uint64_t address) {
  ThreadLog* log = Recorder::this_thread();
  Record* record = log->append(size >= 0 ? RecordKind::kAllocate : RecordKind::kFree);
  if (record == nullptr) return;
  record->memory = {address, size, 0, kNoArena, 0, -1};
  record->ticks = now_ticks();
  log->publish();
}

inline Columns decode(uint32_t window) {
  const ReadLock lock(recorder());
  return decode_window(recorder().view_of(*recorder().window(window)), {});
}

inline Columns finish(uint32_t window) {
  recorder().close_window(window);
  Columns columns = decode(window);
  recorder().discard_window(window);
  return columns;
}

// All columns of all tables and all names, as text.
inline std::string described(Columns columns) {
  std::ostringstream out;
  out << columns.start_ns << ' ' << columns.end_ns << ' ' << columns.dropped.spans << '\n';
  columns.for_each_table([&](auto& table) {
    out << table.kTable << '\n';
    table.for_each_column([&](const char* column, auto& values, bool) {
      out << "  " << column;
      if constexpr (requires { values.values; }) {
        for (const auto value : values.values) out << ' ' << +value;
      } else {
        for (const auto value : values) out << ' ' << +value;
      }
      out << '\n';
    });
  });
  return out.str() + columns.names.blob;
}

inline std::vector<std::string> names_of(const Columns& columns) {
  std::vector<std::string> names;
  for (const int32_t name : columns.events.name) names.push_back(columns.names.text(name));
  return names;
}

inline std::vector<std::string> scalars_of(const Columns& columns) {
  std::vector<std::string> values;
  for (const int32_t value : columns.scalars.value) values.push_back(columns.names.text(value));
  return values;
}

using Names = std::vector<std::string>;
using Rows = std::vector<int32_t>;

}  // namespace opscope::tests
