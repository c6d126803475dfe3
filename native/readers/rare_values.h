// What only Python can say of a value, for files that are unlike those of torch.profiler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace opscope::readers {

// Of which it is asked once for each text that there is.
struct CategoryMeaning {
  int16_t gpu_kind = -1;    // -1: it is no activity of a device
  uint8_t span_kind = 0;    // otherwise
  uint8_t device_type = 0;  // of a device's activity
  bool is_mark = false;     // where the profiler that wrote the file began and ended
  bool is_overhead = false;
  bool is_unknown = false;    // what a span of it is has to be seen from the span
  bool has_counters = false;  // its arguments are hardware counters
  bool keeps_gpu = false;     // kept beside the kind, as it would be written in another way
  bool keeps_driver = false;  // the same of spans with the name of a call of the driver
  bool keeps_other = false;   // and of all others
};

using Wide = __int128;

class RareValues {
 public:
  virtual ~RareValues() = default;
  // A value as Python prints it.
  virtual std::string spelled(std::string_view json) = 0;
  // The integer between -2^63 and 2^64 - 1 that a text is.
  virtual std::optional<Wide> whole(std::string_view text) = 0;
  // A time in microseconds, in nanoseconds.
  virtual std::optional<int64_t> nanoseconds(std::string_view text) = 0;
  // ScalarType of an argument that is printed like that.
  virtual uint8_t scalar_type(std::string_view text) = 0;
  virtual CategoryMeaning category(std::string_view text) = 0;
};

}  // namespace opscope::readers
