// Which operators computed the same value: a number for each, made of what is known of its arguments and of
// the numbers of the operators that made those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opscope::memory {

// Columns of operators and of their arguments; not owned.
struct ValueInputs {
  size_t operators;
  const uint64_t* base;   // of every operator: what it is, and its arguments that are no tensors
  const bool* is_unique;  // of every operator: its value is like no other
  size_t arguments;
  const int64_t* event;     // of every argument its operator
  const int64_t* producer;  // of every argument the operator that made it, -1 for none
  const uint64_t* memory;   // of every argument: what it holds, where no operator made it
  const uint64_t* shape;    // of every argument: how it looks at its memory
  const uint64_t* place;    // of every argument: which of its operator's it is
};

struct Values {
  std::vector<uint64_t> number;      // of every operator
  std::vector<uint8_t> is_constant;  // of every operator: it follows from no memory at all
};

// Goes from operators to those that get what they made for so many rounds at most; what rests on a longer
// chain than that is like nothing else. Throws std::out_of_range for an operator that there is not.
Values equal_values(const ValueInputs& inputs, int rounds);

}  // namespace opscope::memory
