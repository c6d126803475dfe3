// Decodes payloads: arena words become rows of the tensors and scalars tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "decode/columns.h"
#include "decode/payload_reader.h"

namespace opscope {

class ArgumentWriter {
 public:
  explicit ArgumentWriter(Columns& out) : out_(out) {}
  void write(PayloadReader& payload, int32_t event, bool output);
  // Writes the parameters of one module or optimizer.
  void write_parameters(PayloadReader& payload, int32_t module, int32_t optimizer, int64_t time_ns);

 private:
  // The following functions get the first word of an entry and read the rest.
  void write_value(PayloadReader& payload, uint64_t word);
  void write_tensor(PayloadReader& payload, uint64_t word, int32_t element);
  void write_tensor_list(PayloadReader& payload, uint64_t word);
  void write_list(PayloadReader& payload, uint64_t word);
  void write_sequence(PayloadReader& payload, uint64_t word);
  void write_list_of_numbers(PayloadReader& payload, uint64_t word);
  // Appends the contents of a sequence to text_ as JSON; its tensors get separate rows.
  void describe(PayloadReader& payload, uint64_t word);
  void describe_list(PayloadReader& payload, uint64_t word);
  void describe_each(PayloadReader& payload, uint64_t count, std::string_view kind);
  void write_scalar(uint8_t type, std::string_view text);

  Columns& out_;
  std::string text_;
  int32_t event_ = -1;
  int16_t argument_ = -1;
  int32_t keyword_ = -1;
  int32_t part_ = 0;  // tensors so far in the current sequence
  int depth_ = 0;     // of nested sequences
  uint8_t role_ = 0;
};

// A double in torch's format: "1." for a whole number, otherwise 17 significant digits.
void append_double(std::string& text, double number);

}  // namespace opscope
