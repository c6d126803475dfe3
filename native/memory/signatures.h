// Signatures: an operator's name and what kinds of arguments it was called with. A program calls a
// few hundred of them however long it runs, so what a schema says of one is looked up once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/input.h"

namespace opscope::memory {

// What an argument was, as far as a schema can tell. The letters are what Python sees.
enum class ArgumentKind : char {
  kNothing = 'N',  // None, or of a kind that torch's profiler does not record
  kTensor = 'T',
  kTensorList = 'L',
  kBool = 'b',
  kInt = 'i',
  kFloat = 'f',
  kComplex = 'c',
};

struct Signatures {
  std::vector<int32_t> of_event;   // row below; -1 for what is neither operator nor annotation
  std::vector<int32_t> name;       // row in names
  std::vector<std::string> kinds;  // ArgumentKinds, by position
};

Signatures read_signatures(const Tables& tables);

}  // namespace opscope::memory
