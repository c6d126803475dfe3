// Spans named in Python with opscope.record_function, without torch.
#pragma once

#include <nanobind/nanobind.h>

#include "log/recorder.h"

namespace opscope {

inline void fill_annotation(Record& record, RecordKind kind, uint32_t name) {
  record.kind = kind;
  record.scope = RecordScope::kUserScope;
  record.annotation.sequence_number = -1;
  record.annotation.name = name;
  record.annotation.inputs = kNoArena;
  record.annotation.forward_thread = record.annotation.launch = 0;
}

inline uint32_t name_id(Recorder& recorder, ThreadLog& log, const char* text) {
  const uint32_t known = log.names.find(text);
  return known != kNoName ? known : recorder.intern(&log, text);
}

}  // namespace opscope
