#include "memory/equal_values.h"

#include <stdexcept>

#include "columns/mix.h"

namespace opscope::memory {

namespace {

using columns::mix;

class Solver {
 public:
  explicit Solver(const ValueInputs& inputs)
      : in_(inputs),
        number_(inputs.operators),
        total_(inputs.operators),
        constant_(inputs.operators),
        reads_memory_(inputs.operators) {
    for (size_t row = 0; row < in_.operators; ++row) {
      number_[row] = own(row);
      constant_[row] = in_.is_unique[row] ? 0 : 1;
    }
    for (size_t i = 0; i < in_.arguments; ++i) {
      check(i);
      total_[at(in_.event[i])] += part(i, number_);
      if (in_.producer[i] >= 0) {
        made_.push_back(i);
      } else {
        reads_memory_[at(in_.event[i])] = 1;
      }
    }
  }

  Values solve(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      // Both: a round sees what the one before found.
      const bool same = !spread_memory();
      if (!renumber() && same) break;
    }
    return {std::move(number_), std::move(constant_)};
  }

 private:
  static size_t at(int64_t row) { return static_cast<size_t>(row); }
  static uint64_t own(size_t row) { return mix(row) ^ 1; }

  void check(size_t i) const {
    const auto is_row = [&](int64_t row) { return row >= 0 && at(row) < in_.operators; };
    if (!is_row(in_.event[i]) || (in_.producer[i] >= 0 && !is_row(in_.producer[i]))) {
      throw std::out_of_range("an operator is no row of the table");
    }
  }

  // What an argument adds to its operator's number.
  uint64_t part(size_t i, const std::vector<uint64_t>& number) const {
    const uint64_t source = in_.producer[i] >= 0 ? number[at(in_.producer[i])] : in_.memory[i];
    return mix((source ^ in_.shape[i]) + in_.place[i]);
  }

  // Whether any operator turned out to rest on memory.
  bool spread_memory() {
    std::vector<uint8_t> next = constant_;
    for (size_t row = 0; row < in_.operators; ++row) next[row] &= reads_memory_[row] ? 0 : 1;
    for (const size_t i : made_) {
      if (!constant_[at(in_.producer[i])]) next[at(in_.event[i])] = 0;
    }
    constant_.swap(next);
    return constant_ != next;
  }

  // Whether any operator got another number.
  bool renumber() {
    std::vector<uint64_t> next(in_.operators);
    for (size_t row = 0; row < in_.operators; ++row) {
      next[row] = in_.is_unique[row] ? own(row) : mix(in_.base[row] ^ total_[row]);
    }
    number_.swap(next);
    bool any = false;
    for (const size_t i : made_) {
      const size_t source = at(in_.producer[i]);
      if (number_[source] == next[source]) continue;
      any = true;
      // Sums wrap around, so that a part can be taken out again.
      total_[at(in_.event[i])] += part(i, number_) - part(i, next);
    }
    return any || number_ != next;
  }

  const ValueInputs& in_;
  std::vector<uint64_t> number_;
  std::vector<uint64_t> total_;  // of the parts of an operator's arguments
  std::vector<uint8_t> constant_;
  std::vector<uint8_t> reads_memory_;  // an argument is what no operator made
  std::vector<size_t> made_;           // arguments that one made
};

}  // namespace

Values equal_values(const ValueInputs& inputs, int rounds) { return Solver(inputs).solve(rounds); }

}  // namespace opscope::memory
