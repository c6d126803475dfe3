#include "sources/python_parameters.h"

#include <algorithm>
#include <cstring>
#include <string_view>

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

// A name as a kString, in `out`, which has room for it.
uint64_t* put_name(uint64_t* out, std::string_view name) {
  const size_t words = (name.size() + 7) / 8;
  *out = make_tag(Tag::kString, name.size());
  if (words != 0) {
    out[words] = 0;
    std::memcpy(out + 1, name.data(), name.size());
  }
  return out + 1 + words;
}

std::string_view text_of(PyObject* name) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &length);
  if (text == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {text, std::min<size_t>(static_cast<size_t>(length), kMaxStringBytes)};
}

// A row: (name, role, parameter, impl, storage impl, storage, offset, version, dtype, device type,
// device index, layout, requires grad, sizes, strides). It is kept in one piece: the decoder looks
// for the rest of a payload only where a row begins.
bool put_row(Arena& arena, PyObject* row) {
  if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 15) return true;
  PyObject* sizes = PyTuple_GET_ITEM(row, 13);
  PyObject* strides = PyTuple_GET_ITEM(row, 14);
  if (!PyTuple_Check(sizes) || !PyTuple_Check(strides)) return true;
  const std::string_view name = text_of(PyTuple_GET_ITEM(row, 0));
  const size_t dim = std::min<size_t>(PyTuple_GET_SIZE(sizes), UINT8_MAX);
  const bool has_strides = static_cast<size_t>(PyTuple_GET_SIZE(strides)) == dim;
  const size_t count = 1 + (name.size() + 7) / 8 + 2 + 6 + dim * (has_strides ? 2 : 1);
  uint64_t* out = arena.reserve(count);
  if (out == nullptr) return false;
  out = put_name(out, name);
  *out++ = make_tag(Tag::kLongInt);
  *out++ = number(row, 1) | number(row, 2) << 8;
  const uint8_t flags = kWide | (number(row, 12) != 0 ? kRequiresGrad : 0) | (has_strides ? kHasStrides : 0);
  const TensorDetail detail = {static_cast<int8_t>(number(row, 8)),
                               static_cast<uint8_t>(number(row, 11)),
                               static_cast<uint8_t>(number(row, 9)),
                               static_cast<int8_t>(number(row, 10)),
                               static_cast<uint8_t>(dim),
                               flags};
  *out++ = make_tag(Tag::kTensor, pack(detail));
  for (Py_ssize_t i = 3; i < 8; ++i) *out++ = number(row, i);
  for (PyObject* list : {sizes, strides}) {
    for (size_t i = 0; i < dim && (list == sizes || has_strides); ++i) {
      *out++ = number(list, static_cast<Py_ssize_t>(i));
    }
  }
  arena.advance(count);
  return true;
}

uint32_t put_rows(Arena& arena, PyObject* rows) {
  if (!arena.begin()) return kCutArena;
  uint64_t* head = arena.reserve(1);
  bool kept = head != nullptr;
  if (kept) {
    *head = make_head(PyList_GET_SIZE(rows), 0);
    arena.advance(1);
  }
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
