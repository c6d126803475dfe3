// From an instruction of a Python function to its line, without Python: what PyCode_Addr2Line does.
#pragma once

#include <cstdint>
#include <string_view>

namespace opscope {

enum class LineFormat : uint8_t {
  kLines = 0,      // Python 3.10: https://peps.python.org/pep-0626/, Objects/lnotab_notes.txt
  kLocations = 1,  // from 3.11 on: https://peps.python.org/pep-0657/, Objects/locations.md
};

// The table is `co_linetable`, after one byte that says in which format it is. `offset` counts bytes of code
// from the first instruction. -1 where there is no line.
int32_t line_at(std::string_view table, int32_t first_line, int32_t offset);

}  // namespace opscope
