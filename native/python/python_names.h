// What the decoder asks of Python calls: the functions, modules and optimizers that were recorded, as text.
#pragma once

#include "decode/columns.h"
#include "python/python_calls.h"

namespace opscope {

// [MT] As its base.
class RecordedPython final : public PythonNames {
 public:
  Function function(uint32_t frame) override {
    const FrameInfo info = calls_.frames.describe(frame);
    return {info.file, info.function, info.line};
  }
  int32_t line_at(uint32_t frame, int32_t offset) override { return calls_.frames.line_of(frame, offset); }
  Instance module(uint32_t row) override { return instance(calls_.modules, row); }
  Instance optimizer(uint32_t row) override { return instance(calls_.optimizers, row); }
  uint32_t module_frame() override { return calls_.frames.module_row(); }

 private:
  static Instance instance(InstanceTable& table, uint32_t row) {
    const InstanceInfo info = table.describe(row);
    return {info.address, info.class_address, info.class_name};
  }
  PythonCalls& calls_ = PythonCalls::instance();
};

}  // namespace opscope
