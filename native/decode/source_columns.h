// Decoder's counterpart of log/source.h: tables of a source's spans.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/columns.h"
#include "decode/python_columns.h"
#include "decode/spans.h"

namespace opscope {

// A span that has been written to `events`.
struct WrittenSpan {
  const Record* record;
  int32_t event;
  int64_t start_ns;
  int64_t duration_ns;
};

class SourceColumns {
 public:
  // `kind`: kind of its spans in windows that want any of `wants`. Lists itself when the library is loaded.
  SourceColumns(uint32_t wants, RecordKind kind) : wants(wants), kind(kind), next_(first_) { first_ = this; }
  SourceColumns(const SourceColumns&) = delete;
  SourceColumns& operator=(const SourceColumns&) = delete;

  // Changes the spans of one thread before nest_by_time().
  virtual void arrange(ThreadSpans& /*thread*/, const Ends& /*ends*/, const Texts& /*texts*/) const {}
  // Writes its tables from its spans of all threads, in order of events.
  virtual void write(const std::vector<WrittenSpan>& spans, const Texts& texts, PythonColumnWriter& python,
                     Columns& out) const = 0;

  // Calls function(columns) for each one that this window wants.
  template <typename Function>
  static void for_each(uint32_t wants, Function&& function) {
    for (const SourceColumns* columns = first_; columns != nullptr; columns = columns->next_) {
      if ((columns->wants & wants) != 0) function(*columns);
    }
  }

  const uint32_t wants;
  const RecordKind kind;

 protected:
  ~SourceColumns() = default;

 private:
  static inline const SourceColumns* first_ = nullptr;
  const SourceColumns* next_;
};

}  // namespace opscope
