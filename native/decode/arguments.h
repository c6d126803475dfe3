// Reading payloads back: arena words become rows of the tensors and scalars tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "decode/columns.h"
#include "log/arena.h"
#include "log/payload.h"

namespace opscope {

// Where a payload, or the rest of one, is.
struct PayloadPlace {
  const uint64_t* word = nullptr;            // nullptr: it could not be kept
  const ArenaBlock* const* block = nullptr;  // that it is in, among the thread's
  const ArenaBlock* const* end = nullptr;
};

// Finds payloads by position. Positions of one thread are asked for in rising order, so it walks
// the blocks once.
class ArenaCursor {
 public:
  ArenaCursor() = default;
  explicit ArenaCursor(const std::vector<const ArenaBlock*>& blocks)
      : block_(blocks.data()), end_(blocks.data() + blocks.size()) {}
  PayloadPlace at(uint32_t position);

 private:
  const ArenaBlock* const* block_ = nullptr;
  const ArenaBlock* const* end_ = nullptr;
};

class ArgumentWriter {
 public:
  explicit ArgumentWriter(Columns& out) : out_(out) {}
  // A payload that is no longer there is counted as cut.
  void write(const PayloadPlace& place, int32_t event, bool output);
  // The parameters of one module or optimizer.
  void write_parameters(const PayloadPlace& place, int32_t module, int32_t optimizer, int64_t time_ns);

 private:
  // The word itself, or where the payload goes on if it ends there.
  const uint64_t* follow(const uint64_t* word);
  bool is_list_of_numbers(const uint64_t* word);
  const uint64_t* write_value(const uint64_t* word);
  const uint64_t* write_tensor(const uint64_t* word, int32_t element);
  const uint64_t* write_tensor_list(const uint64_t* word);
  const uint64_t* write_list(const uint64_t* word);
  const uint64_t* write_sequence(const uint64_t* word);
  const uint64_t* write_list_of_numbers(const uint64_t* word);
  // Appends what is inside a sequence to text_ as JSON; its tensors get rows of their own.
  const uint64_t* describe(const uint64_t* word);
  const uint64_t* describe_list(const uint64_t* word);
  const uint64_t* describe_each(const uint64_t* word, uint64_t count, std::string_view kind);
  void write_scalar(uint8_t type, std::string_view text);

  Columns& out_;
  PayloadPlace place_;  // its block is the one being read
  std::string text_;
  int32_t event_ = -1;
  int16_t argument_ = -1;
  int32_t keyword_ = -1;
  int32_t part_ = 0;  // tensors of the current sequence so far
  uint8_t role_ = 0;
};

// A double as torch prints it: "1." where it is whole, 17 significant digits otherwise.
void append_double(std::string& text, double number);

}  // namespace opscope
