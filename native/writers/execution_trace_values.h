// Arguments and results of an operator in an execution trace: four parallel lists.
//
//     {"values": [[5,6,0,8,4,"cpu"],1], "shapes": [[2,4],[]], "types": ["Tensor(float)","Int"],
//      "strides": [[4,1],[]]}
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "numpy/column_source.h"
#include "schema/numbering.h"
#include "writers/json_escape.h"
#include "writers/text_buffer.h"

namespace opscope::writers {

// Small numbers for addresses, as execution traces name tensors and storages.
class ObjectIds {
 public:
  // Number of the object at `address` in its `life`-th life; a new object gets `next`, which then increases.
  uint64_t id(uint64_t address, uint64_t life, uint64_t& next) {
    const auto number = static_cast<size_t>(numbers_.of({address, life}));
    if (number == ids_.size()) ids_.push_back(next++);
    return ids_[number];
  }

 private:
  struct Object {
    uint64_t address = 0;
    uint64_t life = 0;

    friend bool operator==(const Object& one, const Object& other) = default;
    struct Hash {
      uint64_t operator()(const Object& object) const { return object.address ^ object.life << 40; }
    };
  };

  Numbering<Object, Object::Hash> numbers_;
  std::vector<uint64_t> ids_;
};

// Rows of a table by event: those of event i are index[rows[i].begin, rows[i].end), or these numbers
// themselves if there is no index.
struct RowsOfEvents {
  // `name`: prefix of its columns. `count`: size of the table.
  RowsOfEvents(const ColumnSource& from, const std::string& name, size_t events, size_t count)
      : index(from.indices<int32_t>(name + ".index", count)),
        rows(from.rows(name + ".rows", events, index.empty() ? count : index.size)) {}

  ColumnView<int32_t> index;
  Rows rows;

  size_t operator[](size_t i) const { return index.empty() ? i : static_cast<size_t>(index[i]); }
};

// Columns of columns/schema.py, and the rows of inputs and of outputs.
struct ValueTensors : TableColumns {
  ValueTensors(const ColumnSource& from, size_t events)
      : TableColumns(from, "tensors", from.any<int16_t>("tensors.argument").size),
        inputs(from, "tensors.inputs", events, size()),
        outputs(from, "tensors.outputs", events, size()) {}

  RowsOfEvents inputs;
  RowsOfEvents outputs;
  ColumnView<int16_t> argument = column("argument");
  ColumnView<int32_t> element = column("element");
  ColumnView<uint8_t> role = column("role");
  ColumnView<int8_t> dtype = column("dtype");
  ColumnView<int8_t> unsized_dtype = column("unsized_dtype");
  ColumnView<int8_t> device_type = column("device_type");
  ColumnView<int8_t> device_index = column("device_index");
  ColumnView<int8_t> layout = column("layout");
  ColumnView<uint64_t> impl = column("impl");
  ColumnView<uint64_t> storage = column("storage");
  ColumnView<uint64_t> storage_impl = column("storage_impl");
  ColumnView<int64_t> storage_offset = column("storage_offset");
  ColumnView<int64_t> tensor_id = column("tensor_id");
  ColumnView<int64_t> allocation_id = column("allocation_id");
  ListView sizes = column("sizes");
  ListView strides = column("strides");
};

struct ValueScalars : TableColumns {
  ValueScalars(const ColumnSource& from, size_t events)
      : TableColumns(from, "scalars", from.any<int16_t>("scalars.argument").size),
        inputs(from, "scalars.inputs", events, size()),
        outputs(from, "scalars.outputs", events, size()) {}

  RowsOfEvents inputs;
  RowsOfEvents outputs;
  ColumnView<int16_t> argument = column("argument");
  ColumnView<uint8_t> type = column("type");
  ColumnView<int32_t> value = column("value");
};

// A tuple or a list of lists: JSON texts with gaps for tensors, so one more text than tensors.
struct NestedText {
  std::vector<std::string> values;
  std::vector<std::string> shapes;
  std::vector<std::string> types;
};

struct ValueNames {
  std::vector<std::string> dtypes;                 // by c10::ScalarType
  std::vector<int64_t> itemsizes;                  // by c10::ScalarType
  std::vector<std::string> devices;                // by c10::DeviceType
  std::unordered_map<int32_t, NestedText> nested;  // by row in names
};

class ValueWriter {
 public:
  // All parameters must outlive this. `next_id` increases for each new object.
  ValueWriter(const ValueTensors& tensors, const ValueScalars& scalars, const ValueNames& names,
              const EscapedNames& texts, ObjectIds& objects, uint64_t& next_id, uint64_t segment)
      : tensors_(tensors),
        scalars_(scalars),
        names_(names),
        texts_(texts),
        objects_(objects),
        next_id_(next_id),
        segment_(segment) {}

  // Writes at most the last `most` values: operators with arguments on a stack have all of the stack. `more`:
  // a further finished integer, or empty.
  void write_inputs(TextBuffer& out, size_t event, size_t most, std::string_view more);
  void write_outputs(TextBuffer& out, size_t event, size_t most);

 private:
  struct Argument {
    enum Kind : uint8_t { kMissing, kTensor, kTensorList, kScalar, kNested };
    Kind kind = kMissing;
    size_t begin = 0;  // tensors: positions in the rows of inputs or outputs
    size_t end = 0;
    size_t scalar = 0;  // row
  };
  enum class Part : uint8_t { kValues, kShapes, kTypes, kStrides };
  // JSON of a scalar; lists have a count, others -1.
  struct ScalarText {
    std::string value;
    std::string type;
    int64_t count;
  };

  void collect(size_t event, size_t most, const RowsOfEvents& tensors, const RowsOfEvents& scalars);
  Argument& place(int16_t position);
  void write_part(TextBuffer& out, Part part, std::string_view more);
  void write_argument(TextBuffer& out, Part part, const Argument& argument);
  void write_tensors(TextBuffer& out, Part part, const Argument& argument);
  void write_nested(TextBuffer& out, Part part, const Argument& argument);
  void write_tensor(TextBuffer& out, Part part, size_t row);
  void write_tensor_value(TextBuffer& out, size_t row);
  void write_scalar(TextBuffer& out, Part part, size_t row);
  void write_tensor_type(TextBuffer& out, size_t row) const;
  void write_device(TextBuffer& out, size_t row) const;
  const ScalarText& scalar_text(uint8_t type, int32_t name);
  uint64_t life(int64_t number) const;

  const ValueTensors& tensors_;
  const ValueScalars& scalars_;
  const ValueNames& names_;
  const EscapedNames& texts_;
  ObjectIds& objects_;
  uint64_t& next_id_;
  uint64_t segment_;
  const RowsOfEvents* side_ = nullptr;
  std::vector<Argument> arguments_;  // of the current event
  std::unordered_map<uint64_t, ScalarText> scalar_texts_;
};

}  // namespace opscope::writers
