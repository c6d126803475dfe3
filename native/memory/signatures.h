// Signatures: an operator's name and what kinds of arguments it was called with. A program calls a
// few hundred of them however long it runs, so what a schema says of one is looked up once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/input.h"

namespace opscope::memory {

struct Signatures {
  std::vector<int32_t> of_event;   // row below; -1 for what is neither operator nor annotation
  std::vector<int32_t> name;       // row in names
  std::vector<std::string> kinds;  // a letter of ArgumentKind per position
};

Signatures read_signatures(const Tables& tables);

}  // namespace opscope::memory
