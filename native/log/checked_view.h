// Checks that threads and blocks of a file or copy are consistent, so that decoding may rely on them.
#pragma once

#include <iterator>

#include "log/bytes.h"
#include "log/log_view.h"
#include "schema/codes.h"

namespace opscope {

// The sum of two such numbers does not overflow.
constexpr uint64_t kMostRecords = uint64_t{1} << 60;
constexpr int64_t kLatest_ns = int64_t{1} << 62;   // in the year 2116
constexpr int64_t kLongest_ns = int64_t{1} << 60;  // 36 years

// Raises Damage. Records and payloads are checked during decoding, which reads each once.
void check_view(const LogView& view);
void check_anchor(const ClockAnchor& anchor);

inline bool is_known(RecordKind kind) {
  const auto number = static_cast<size_t>(kind);
  return is_span(kind) ? number < std::size(kWantedBy) : kind <= RecordKind::kScript;
}

// Raises Damage.
inline void check_record(const Record& record) {
  require(is_known(record.kind), "a record has an unknown kind");
  require(!is_span(record.kind) || record.load_state() <= SpanState::kRaised, "a span has an unknown state");
}

}  // namespace opscope
