// What the categories of a Chrome file mean, which a table of Python's says.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace opscope::readers {

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

// Asked once for each category.
using MeaningOf = std::function<CategoryMeaning(std::string_view)>;

}  // namespace opscope::readers
