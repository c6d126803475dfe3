// Rows of tensors and scalars from the arguments of operators in Kineto's files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "parsers/event_columns.h"
#include "parsers/json_value.h"
#include "parsers/text_rows.h"

namespace opscope::readers {

// C++ names of dtypes to their codes.
using DtypeCodes = std::unordered_map<std::string, int8_t>;

class ArgumentRows {
 public:
  // `texts`: the trace's table of names. `known_keys`: keys of `args` that are no keyword arguments.
  ArgumentRows(TextRows& texts, const DtypeCodes& dtypes, const std::vector<std::string>& known_keys);

  // Adds the rows of one call; other formats than Kineto's become kOther.
  void add(int32_t event, const FoundEvent& found);
  // Adds the rows of keyword arguments, which Kineto writes as separate keys.
  void add_keywords(int32_t event, const FoundEvent& found);

  TensorColumns tensors;
  ScalarColumns scalars;

 private:
  struct Type {
    int8_t dtype = -1;
    bool is_tensor_list = false;
    bool is_scalar = false;
    bool is_scalar_list = false;
  };

  Type type_named(const Value& name);
  void add_tensor(int32_t event, int16_t argument, int32_t element, int8_t dtype, const Value& sizes,
                  const Value& strides);
  void add_tensor_list(int32_t event, int16_t argument, const Value& sizes, const Value& strides);
  void add_scalar(int32_t event, int16_t argument, const Type& type, const Value& value);
  void append(int32_t event, int16_t argument, uint8_t role, int32_t keyword, uint8_t type,
              std::string_view text);
  void append_numbers(Lists& lists, const Value& row);

  TextRows& texts_;
  TextRows type_names_;
  std::vector<Type> types_;
  const DtypeCodes& dtypes_;
  TextRows keys_;  // known keys first
  int32_t known_keys_;
  std::vector<uint64_t> key_seen_;  // last call in which each key occurred
  uint64_t call_ = 0;
  std::vector<size_t> keywords_;  // of the current call
  std::string scratch_;
};

}  // namespace opscope::readers
