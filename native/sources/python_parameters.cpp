#include "sources/python_parameters.h"

#include <algorithm>
#include <cstring>

#include "payload.h"
#include "recorder.h"

namespace opscope {

namespace {

PyObject* parameter_reader = nullptr;  // owned

uint64_t number(PyObject* row, Py_ssize_t index) {
  const uint64_t value = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(row, index));
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return value;
}

bool put(Arena& arena, const uint64_t* words, size_t count) {
  uint64_t* out = arena.reserve(count);
  if (out == nullptr) return false;
  std::copy_n(words, count, out);
  arena.advance(count);
  return true;
}

bool put_name(Arena& arena, PyObject* name) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &length);
  if (text == nullptr) {
    PyErr_Clear();
    length = 0;
  }
  const size_t bytes = std::min<size_t>(length, kMaxStringBytes);
  const size_t words = (bytes + 7) / 8;
  uint64_t* out = arena.reserve(1 + words);
  if (out == nullptr) return false;
  *out = make_tag(Tag::kString, bytes);
  if (words != 0) {
    out[words] = 0;
    std::memcpy(out + 1, text, bytes);
  }
  arena.advance(1 + words);
  return true;
}

// A row: (name, role, parameter, impl, storage impl, storage, offset, version, dtype, device type,
// device index, layout, requires grad, sizes, strides).
bool put_row(Arena& arena, PyObject* row) {
  if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 15) return true;
  const uint64_t role[] = {make_tag(Tag::kLongInt), number(row, 1) | number(row, 2) << 8};
  PyObject* sizes = PyTuple_GET_ITEM(row, 13);
  PyObject* strides = PyTuple_GET_ITEM(row, 14);
  if (!PyTuple_Check(sizes) || !PyTuple_Check(strides)) return true;
  const size_t dim = std::min<size_t>(PyTuple_GET_SIZE(sizes), UINT8_MAX);
  const bool has_strides = static_cast<size_t>(PyTuple_GET_SIZE(strides)) == dim;
  const uint8_t flags = kWide | (number(row, 12) != 0 ? kRequiresGrad : 0) | (has_strides ? kHasStrides : 0);
  const TensorDetail detail = {static_cast<int8_t>(number(row, 8)),
                               static_cast<uint8_t>(number(row, 11)),
                               static_cast<uint8_t>(number(row, 9)),
                               static_cast<int8_t>(number(row, 10)),
                               static_cast<uint8_t>(dim),
                               flags};
  const uint64_t tensor[] = {make_tag(Tag::kTensor, pack(detail)),
                             number(row, 3),
                             number(row, 4),
                             number(row, 5),
                             number(row, 6),
                             number(row, 7)};
  if (!put_name(arena, PyTuple_GET_ITEM(row, 0)) || !put(arena, role, 2) || !put(arena, tensor, 6))
    return false;
  for (PyObject* list : {sizes, strides}) {
    for (size_t i = 0; i < dim && (list == sizes || has_strides); ++i) {
      const uint64_t value = number(list, static_cast<Py_ssize_t>(i));
      if (!put(arena, &value, 1)) return false;
    }
  }
  return true;
}

uint32_t put_rows(Arena& arena, PyObject* rows) {
  if (!arena.begin()) return kCutArena;
  const uint64_t head = make_head(PyList_GET_SIZE(rows), 0);
  bool kept = put(arena, &head, 1);
  for (Py_ssize_t i = 0; kept && i < PyList_GET_SIZE(rows); ++i) {
    kept = put_row(arena, PyList_GET_ITEM(rows, i));
  }
  if (kept) return arena.commit();
  arena.cancel();
  return kCutArena;
}

}  // namespace

void set_parameter_reader(PyObject* reader) {
  Py_XINCREF(reader);
  Py_XDECREF(parameter_reader);
  parameter_reader = reader;
}

void record_parameters(PyObject* instance, uint32_t row, bool is_module) {
  if (parameter_reader == nullptr || parameter_reader == Py_None) return;
  PyObject* rows = PyObject_CallFunctionObjArgs(parameter_reader, instance, nullptr);
  if (rows == nullptr) PyErr_Clear();
  if (rows != nullptr && PyList_Check(rows) && PyList_GET_SIZE(rows) != 0) {
    ThreadLog* log = Recorder::this_thread();
    Record* record = log == nullptr ? nullptr : log->append(RecordKind::kParameters);
    if (record != nullptr) {
      record->name = row;
      record->scope = is_module ? 0 : 1;
      record->arena = put_rows(log->arena(), rows);
      record->ticks = now_ticks();
      log->publish();
    }
  }
  Py_XDECREF(rows);
}

}  // namespace opscope
