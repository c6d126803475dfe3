#include "python/python_parameters.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "log/payload.h"
#include "log/recorder.h"
#include "python/python_own_code.h"

namespace opscope {

namespace {

PyObject* parameter_reader = nullptr;  // owned

uint64_t number(PyObject* row, Py_ssize_t index) {
  return PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(row, index));
}

// Accepts plain integers only: converting other objects (a symbolic size) would run Python.
bool are_numbers(PyObject* tuple, Py_ssize_t begin, Py_ssize_t end) {
  for (Py_ssize_t i = begin; i < end; ++i) {
    if (!PyLong_Check(PyTuple_GET_ITEM(tuple, i))) return false;
  }
  return true;
}

// Writes a name as a kString to `out`, which has room for it.
uint64_t* put_name(uint64_t* out, std::string_view name) {
  const size_t words = (name.size() + 7) / 8;
  *out = make_tag(Tag::kString, name.size());
  if (words != 0) {
    out[words] = 0;
    std::memcpy(out + 1, name.data(), name.size());
  }
  return out + 1 + words;
}

std::string_view utf8_of(PyObject* name) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &length);
  if (text == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {text, std::min<size_t>(static_cast<size_t>(length), kMaxStringBytes)};
}

bool is_row(PyObject* row) {
  if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 15) return false;
  PyObject* sizes = PyTuple_GET_ITEM(row, 13);
  PyObject* strides = PyTuple_GET_ITEM(row, 14);
  return PyTuple_Check(sizes) && PyTuple_Check(strides) && are_numbers(row, 1, 13) &&
         are_numbers(sizes, 0, PyTuple_GET_SIZE(sizes)) && are_numbers(strides, 0, PyTuple_GET_SIZE(strides));
}

// Row: (name, role, parameter, impl, storage impl, storage, offset, version, dtype, device type, device
// index, layout, requires grad, sizes, strides). A row never spans two blocks: the decoder follows the link
// to the next block only at the start of a row.
bool put_row(Arena& arena, PyObject* row, std::string_view name) {
  PyObject* sizes = PyTuple_GET_ITEM(row, 13);
  PyObject* strides = PyTuple_GET_ITEM(row, 14);
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

struct NamedRow {
  PyObject* row;  // borrowed
  std::string_view name;
};

// Reads names before anything is appended: an invalid name raises an error in Python, which may start a
// collection, and collections append records.
std::vector<NamedRow> rows_of(PyObject* list) {
  std::vector<NamedRow> rows;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* row = PyList_GET_ITEM(list, i);
    if (is_row(row)) rows.push_back({row, utf8_of(PyTuple_GET_ITEM(row, 0))});
  }
  return rows;
}

uint32_t put_rows(Arena& arena, const std::vector<NamedRow>& rows) {
  if (!arena.begin()) return kCutArena;
  uint64_t* head = arena.reserve(1);
  bool kept = head != nullptr;
  if (kept) {
    *head = make_head(rows.size(), 0);
    arena.advance(1);
  }
  for (auto row = rows.begin(); kept && row != rows.end(); ++row) {
    kept = put_row(arena, row->row, row->name);
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

bool read_parameters(PyObject* instance, PyObject** rows) {
  if (parameter_reader == nullptr || parameter_reader == Py_None) return true;
  OwnCode own;
  *rows = PyObject_CallFunctionObjArgs(parameter_reader, instance, nullptr);
  if (*rows != nullptr) return true;
  // The reader handles errors that it knows; errors of the program and lack of memory or stack arrive here.
  const bool lacks_room =
      PyErr_ExceptionMatches(PyExc_RecursionError) != 0 || PyErr_ExceptionMatches(PyExc_MemoryError) != 0;
  own.clear_error(lacks_room ? PyExc_Exception : nullptr);
  return false;
}

void record_parameters(PyObject* list, uint32_t row, bool is_module) {
  if (list == nullptr || !PyList_Check(list)) return;
  const std::vector<NamedRow> rows = rows_of(list);
  ThreadLog* log = rows.empty() ? nullptr : Recorder::this_thread();
  Record* record = log == nullptr ? nullptr : log->append(RecordKind::kParameters);
  if (record == nullptr) return;
  record->parameters = {row, put_rows(log->arena(), rows), is_module ? Owner::kModule : Owner::kOptimizer};
  record->ticks = now_ticks();
  log->publish();
}

}  // namespace opscope
