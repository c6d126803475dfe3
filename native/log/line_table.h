// Line of an instruction of a Python function, without Python: as PyCode_Addr2Line.
#pragma once

#include <cstdint>
#include <string_view>

namespace opscope {

enum class LineFormat : uint8_t {
  kLines = 0,      // Python 3.10: https://peps.python.org/pep-0626/, Objects/lnotab_notes.txt
  kLocations = 1,  // from 3.11 on: https://peps.python.org/pep-0657/, Objects/locations.md
};

// `table`: a byte for the format, then `co_linetable`. `offset`: bytes of code from the first instruction.
// Returns -1 if there is no line.
int32_t line_at(std::string_view table, int32_t first_line, int32_t offset);

}  // namespace opscope
