// How many bytes a Parquet file says it holds, read from its footer alone: a Thrift structure in the compact
// protocol, fields by number, of which two lists and two counts are wanted here.
//
// Arrow would tell, but ends the process when a damaged footer contradicts itself.
#pragma once

#include <cstdint>
#include <string_view>

namespace opscope::readers {

// What all columns take at most in memory: eight bytes a value, or their pages if larger; as much as fits in
// the type where it is more. Throws std::invalid_argument where the footer is damaged.
int64_t unpacked_bytes(std::string_view footer);

}  // namespace opscope::readers
