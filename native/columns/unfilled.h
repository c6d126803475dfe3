// Columns that are written completely before they are read, so memory is not initialised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace opscope::columns {

template <class T>
struct UnfilledMemory : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = UnfilledMemory<U>;
  };
  template <class U>
  void construct(U* place) noexcept {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }
};

// Filling a column of a million numbers with zeros takes a tenth of a pass over it.
template <class T>
using Unfilled = std::vector<T, UnfilledMemory<T>>;

// A value of every row, written before it is read, and the value of row -1 (no parent), which saves a branch.
template <class T>
class OfRowOrNone {
 public:
  OfRowOrNone(size_t rows, T none) : values_(rows + 1) { values_[0] = none; }

  T& operator[](size_t row) { return values_[row + 1]; }
  const T& of(int32_t row) const { return values_[static_cast<size_t>(row + 1)]; }

 private:
  Unfilled<T> values_;
};

}  // namespace opscope::columns
