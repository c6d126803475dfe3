#include "decode/python_columns.h"

#include "log/line_table.h"

namespace opscope {

namespace {

bool is_function(RecordKind kind) {
  return kind == RecordKind::kPythonCall || kind == RecordKind::kModuleCall ||
         kind == RecordKind::kOptimizerCall || kind == RecordKind::kCompiledGraph;
}

}  // namespace

int32_t PythonColumnWriter::event_name(const Record& record) {
  if (record.kind == RecordKind::kCCall) return out_.names.add_global(texts_, record.call.function);
  if (record.kind == RecordKind::kModuleCall) {
    const int32_t row = module_row(record.call.instance);
    return out_.names.add("nn.Module: " + out_.names.text(rows_.module_names[row]));
  }
  return frame(record.call.function).name;
}

void PythonColumnWriter::add_event(const Record& record, int32_t event, int32_t parent) {
  const uint32_t caller = parent == kNone ? kNoFrame : enclosing(parent);
  const bool python = is_function(record.kind);
  const uint32_t own = python ? record.call.function : kNoFrame;
  enclosing_.push_back(python ? own : caller);
  if (record.kind == RecordKind::kOperator && record.op.place != 0 && caller != kNoFrame) {
    out_.operator_calls.event.push_back(event);
    out_.operator_calls.caller.push_back(frame(caller).row);
    out_.operator_calls.caller_line.push_back(line_in(caller, static_cast<int32_t>(record.op.place - 1)));
  }
  if (!python && record.kind != RecordKind::kCCall) return;
  const int32_t line = line_in(caller, record.call.caller_offset);
  PythonCallColumns& calls = out_.python_calls;
  calls.event.push_back(event);
  calls.frame.push_back(own == kNoFrame ? kNone : frame(own).row);
  calls.caller.push_back(caller == kNoFrame ? kNone : frame(caller).row);
  calls.caller_line.push_back(line);
  calls.module.push_back(record.kind == RecordKind::kModuleCall ? module_row(record.call.instance) : kNone);
  calls.optimizer.push_back(record.kind == RecordKind::kOptimizerCall ? optimizer_row(record.call.instance)
                                                                      : kNone);
}

int32_t PythonColumnWriter::line_in(uint32_t caller, int32_t offset) {
  if (caller == kNoFrame || offset < 0) return kNone;
  const uint64_t place = static_cast<uint64_t>(caller) << 32 | static_cast<uint32_t>(offset);
  const auto [known, is_new] = lines_.try_emplace(place, kNone);
  if (is_new) {
    const FunctionText function = texts_.function(caller);
    known->second = line_at(function.line_table, function.line, offset);
  }
  return known->second;
}

const PythonColumnWriter::Frame& PythonColumnWriter::frame(uint32_t id) {
  const auto known = rows_.frames.find(id);
  if (known != rows_.frames.end()) return known->second;
  const FunctionText function = texts_.function(id);
  std::string text(shortened(function.file));
  text.append("(").append(std::to_string(function.line)).append("): ").append(function.function);
  const auto row = static_cast<int32_t>(rows_.frames.size());
  out_.frames.file.push_back(out_.names.add(function.file));
  out_.frames.function.push_back(out_.names.add(function.function));
  out_.frames.line.push_back(function.line);
  return rows_.frames.emplace(id, Frame{row, out_.names.add(text)}).first->second;
}

std::string_view PythonColumnWriter::shortened(std::string_view file) const {
  for (const std::string& prefix : prefixes_) {
    if (file.starts_with(prefix)) return file.substr(prefix.size());
  }
  return file;
}

int32_t PythonColumnWriter::module_row(uint32_t row) {
  const auto [known, is_new] = rows_.modules.try_emplace(row, static_cast<int32_t>(rows_.modules.size()));
  if (!is_new) return known->second;
  const InstanceText instance = texts_.module(row);
  const std::string class_name(instance.class_name);
  const int32_t number = rows_.instances_of_class[class_name]++;
  out_.modules.address.push_back(instance.address);
  out_.modules.class_address.push_back(instance.class_address);
  out_.modules.class_name.push_back(out_.names.add(instance.class_name));
  rows_.module_names.push_back(out_.names.add(class_name + "_" + std::to_string(number)));
  out_.modules.name.push_back(rows_.module_names.back());
  return known->second;
}

int32_t PythonColumnWriter::optimizer_row(uint32_t row) {
  const auto [known, is_new] =
      rows_.optimizers.try_emplace(row, static_cast<int32_t>(rows_.optimizers.size()));
  if (!is_new) return known->second;
  const InstanceText instance = texts_.optimizer(row);
  out_.optimizers.address.push_back(instance.address);
  out_.optimizers.class_name.push_back(out_.names.add(instance.class_name));
  return known->second;
}

}  // namespace opscope
